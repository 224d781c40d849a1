# Image with the provider library for node agents; its files are copied to the machine.
#   docker build -f deploy/images/provider.Dockerfile -t remora-provider .
FROM rust:1-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked --package provider

FROM debian:bookworm-slim
# The folder from which an init container copies, and the folder that is then added to the library path.
COPY --from=build /src/target/release/libaccelerator_amd.so /build/lib/libaccelerator_amd.so
COPY deploy/images/metadata.yaml /build/metadata.yaml
USER 65534:65534
# Copies the files: `docker run -v FOLDER:/run/remora remora-provider`.
CMD ["cp", "-r", "/build/.", "/run/remora"]
