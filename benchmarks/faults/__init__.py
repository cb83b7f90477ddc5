"""What kills, late writers, full disks, hostile names and preemptions do to a run, a study or a report."""
