# Image for a GPU machine: the agent, its workers and the provider library. With ROCm for real GPUs, without it for software GPUs.
#   docker build -f deploy/images/worker.Dockerfile -t remora-worker .
#   docker build -f deploy/images/worker.Dockerfile -t remora-worker:software --target software .
FROM rust:1-bookworm AS build
# The board's pages are built by npm and embedded in the program. Packages are not pinned: Debian keeps only the newest version.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends nodejs npm \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN cargo xtask build && cargo build --release --locked --package provider

# Software GPUs only: a few megabytes, no driver.
FROM debian:bookworm-slim AS software
RUN useradd --system --create-home --home-dir /var/lib/remora --uid 65532 remora
COPY --from=build /src/target/release/remora /usr/bin/remora
COPY --from=build /src/target/release/libaccelerator_amd.so /usr/lib/remora/libaccelerator_amd.so
USER 65532:65532
ENV XDG_STATE_HOME=/var/lib/remora
EXPOSE 8001 18515
HEALTHCHECK --interval=30s --timeout=5s CMD ["remora", "devices"]
ENTRYPOINT ["remora"]
CMD ["worker", "--listen", "127.0.0.1:18515"]

FROM debian:bookworm-slim AS rocm
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends ca-certificates curl \
    && rm -rf /var/lib/apt/lists/*
COPY deploy/images/install-rocm.sh /usr/local/bin/install-rocm
ARG ROCM_VERSION=7.10.0
ARG GPU_FAMILY=gfx94X-dcgpu
ARG CHANNEL=stable
ARG ROCM_SHA256=
RUN ROCM_SHA256="${ROCM_SHA256}" install-rocm "${ROCM_VERSION}" "${GPU_FAMILY}" "${CHANNEL}"

FROM software
USER 0:0
COPY --from=rocm /opt /opt
ENV ROCM_PATH=/opt/rocm
# The container needs the groups of /dev/kfd and /dev/dri/renderD*: --group-add, or supplementalGroups.
USER 65532:65532
CMD ["worker", "--backend", "hip", "--library", "/opt/rocm/lib/libamdhip64.so", "--listen", "127.0.0.1:18515"]
