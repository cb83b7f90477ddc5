# offpiste with all that training, reports and studies need, for machines that run containers:
#   docker build -t offpiste .
#   docker run --rm --volume "$PWD/runs:/runs" offpiste train --game freeway --frames 1M --out /runs
# For an NVIDIA GPU, take torch from another index, as --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu128.
ARG BASE=python:3.11-slim
FROM ${BASE}

ARG TORCH=torch==2.13.0
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PATH=/opt/offpiste/bin:$PATH
RUN python3 -m venv /opt/offpiste
# First, so that nothing below asks for another build of it.
RUN pip install --extra-index-url "$TORCH_INDEX" "$TORCH"
COPY pyproject.toml README.md LICENSE /src/
COPY src /src/src
RUN pip install '/src[report,cluster]' && rm -r /src

# Not root, for what it writes into a volume.
RUN useradd --create-home --uid 1000 offpiste
USER offpiste
WORKDIR /home/offpiste
ENTRYPOINT ["offpiste"]
CMD ["--help"]
