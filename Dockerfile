# goldspan as a gateway (`serve`) and as a worker on Kafka (`stream`). At the top of the repository:
#   docker build -t goldspan .                      or podman build; --build-arg EXTRAS=gateway makes it smaller
# A gateway, with goldens of your own and a volume for what was acknowledged and not yet delivered:
#   docker run -p 4317:4317 -p 4318:4318 -v ./goldens:/etc/goldspan/goldens:ro -v goldspan:/var/lib/goldspan \
#     -e GOLDSPAN_EXPORT_ENDPOINT=http://collector:4318 -e GOLDSPAN_TOKEN goldspan
# A worker, with settings of your own:
#   docker run -v ./stream.yaml:/etc/goldspan/stream.yaml:ro goldspan stream /etc/goldspan/stream.yaml
# Memory of a gateway: 80 MiB at rest, and under load what limits and scoring allow; 512 MiB suits their defaults with
# some thousand open sessions. CPU: one core does all the work that is not done in C; half a core is a start.
# The base is the image that python:3.13.15-slim-trixie named in September 2026. A newer one: `docker buildx imagetools inspect TAG`.
ARG BASE=python:3.13.15-slim-trixie@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b

FROM ${BASE} AS build

ARG EXTRAS=kafka
WORKDIR /src
# Everything that is installed has its hash in config/locks, which `make locks` writes.
COPY config/locks config/locks
RUN python -m venv /opt/goldspan && /opt/goldspan/bin/pip install --no-cache-dir --require-hashes -r config/locks/${EXTRAS}.txt \
    && python -m venv /opt/build && /opt/build/bin/pip install --no-cache-dir --require-hashes -r config/locks/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY scoring scoring
COPY mappers mappers
COPY collector_processor collector_processor
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
    && /opt/goldspan/bin/pip install --no-cache-dir --no-deps --no-index /wheels/*.whl

FROM ${BASE}

COPY --from=build /opt/goldspan /opt/goldspan
# The number is for `runAsNonRoot` and `fsGroup` of Kubernetes.
RUN useradd --system --uid 10001 --home-dir /var/lib/goldspan --create-home goldspan \
    && mkdir -p /etc/goldspan/goldens

USER 10001
WORKDIR /etc/goldspan
VOLUME /var/lib/goldspan
EXPOSE 4317 4318 4319

# Inside a container everything comes from beyond loopback: senders show the token in GOLDSPAN_TOKEN.
COPY config/gateway/container.yaml /etc/goldspan/goldspan.yaml
ENV PATH=/opt/goldspan/bin:$PATH \
    STATE_DIRECTORY=/var/lib/goldspan

# Both doors have their admin pages there.
HEALTHCHECK --interval=10s --timeout=3s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:4319/readyz', timeout=2)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["goldspan"]
CMD ["serve", "--config", "/etc/goldspan/goldspan.yaml"]
