# Client image for programs on machines without a GPU: the drop-in libraries, to be placed before ROCm's in the library path.
#   docker build -f deploy/images/client.Dockerfile -t remora-client .
FROM rust:1-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo xtask build

FROM debian:bookworm-slim
COPY --from=build /src/target/lib /build/lib
COPY --from=build /src/target/release/remora /build/bin/remora
USER 65534:65534
# An init container copies them to a volume; the program's container then sets LD_LIBRARY_PATH=/remora/lib and REMORA_URL.
CMD ["cp", "-r", "/build/.", "/remora"]
