# The server in a container: one binary, its data in a volume.
#
#   docker build -t reveille --build-arg REVEILLE_COMMIT="$(git log -1 --format='%h %cs')" .
#   docker run -p 127.0.0.1:7383:7383 -e REVEILLE_TOKEN="$(openssl rand -hex 24)" -v reveille:/var/lib/reveille reveille
FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
COPY . .
# The repository itself stays outside (.dockerignore), so whoever builds says what it is.
ARG REVEILLE_COMMIT=""
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --release --locked -p reveille && cp target/release/reveille /usr/local/bin/reveille

FROM debian:bookworm-slim
# Roots, for providers behind the gateway.
RUN apt-get update && apt-get install --yes --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 7383 --home-dir /var/lib/reveille --create-home reveille \
    && chmod 700 /var/lib/reveille
COPY --from=build /usr/local/bin/reveille /usr/local/bin/reveille
USER reveille
# Beyond the container's own loopback, so a token is required: REVEILLE_TOKEN.
ENV REVEILLE_LISTEN=0.0.0.0:7383 REVEILLE_DATA_DIR=/var/lib/reveille
VOLUME /var/lib/reveille
EXPOSE 7383
# Waiting calls are answered on SIGTERM.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=5s CMD ["reveille", "ls", "--json"]
ENTRYPOINT ["reveille"]
CMD ["serve"]
