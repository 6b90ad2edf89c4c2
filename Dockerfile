# syntax=docker/dockerfile:1

# --- build: a virtual environment with Tidelog in it -------------------------------------------
FROM python:3.12-slim AS build

# crcmod comes as source and is compiled; everything else has wheels.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*

ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1

WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY protocol ./protocol
COPY broker ./broker
COPY tidelog ./tidelog
RUN python -m venv /opt/tidelog \
    && /opt/tidelog/bin/pip install . \
    && /opt/tidelog/bin/pip uninstall --yes pip

# --- the image: Python, the environment, a user and a volume -----------------------------------
FROM python:3.12-slim

LABEL org.opencontainers.image.title="Tidelog" \
      org.opencontainers.image.description="A durable, Kafka-compatible log-storage broker" \
      org.opencontainers.image.licenses="Apache-2.0"

# The number is fixed, so that a volume's files keep their owner over all versions of the image.
RUN groupadd --system --gid 10001 tidelog \
    && useradd --system --uid 10001 --gid 10001 --home-dir /data --no-create-home \
        --shell /usr/sbin/nologin tidelog \
    && install --directory --owner=10001 --group=10001 --mode=0700 /data

COPY --from=build /opt/tidelog /opt/tidelog

# A container is reached through what is published of it, so in here all addresses are listened on.
ENV PATH=/opt/tidelog/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    TIDELOG__LISTENERS__HOST=0.0.0.0 \
    TIDELOG__LISTENERS__KAFKA_ADVERTISED=localhost:9092 \
    TIDELOG__HTTP__HOST=0.0.0.0 \
    TIDELOG__STORAGE__DATA_DIRS=/data

USER 10001:10001
WORKDIR /data
VOLUME ["/data"]
EXPOSE 9091 9092 9644
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["tidelog", "health"]
ENTRYPOINT ["tidelog"]
CMD ["serve"]
