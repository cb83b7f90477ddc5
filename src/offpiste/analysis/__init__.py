"""From records to statements: tables, statistics, published results and the paper's findings; without torch or Ray."""
