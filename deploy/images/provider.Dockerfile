# The provider library for node agents that load one: an image whose files are copied to the machine.
#   docker build -f deploy/images/provider.Dockerfile -t remora-provider .
FROM rust:1-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked --package provider

FROM debian:bookworm-slim
# Where an init container looks for what it copies, and the folder that goes into the library path after that.
COPY --from=build /src/target/release/libaccelerator_amd.so /build/lib/libaccelerator_amd.so
COPY deploy/images/metadata.yaml /build/metadata.yaml
USER 65534:65534
# Copies, so that `docker run -v FOLDER:/run/remora remora-provider` is all there is to it.
CMD ["cp", "-r", "/build/.", "/run/remora"]
