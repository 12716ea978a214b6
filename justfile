# The commands that are too long to remember. Each is plain cargo behind its name.

# Everything that the continuous checks do
check:
    .ci/run

# All doors under mixed load: `just soak` for minutes, `just soak 240` for hours
soak minutes="5":
    cargo build --workspace
    cargo run -p reveille-bench -- soak --minutes {{minutes}}

# More inputs for every parser than the tests try by themselves
fuzz inputs="500000":
    REVEILLE_FUZZ_INPUTS={{inputs}} cargo test -p reveille-core --test seeds
    REVEILLE_FUZZ_INPUTS={{inputs}} cargo test -p reveille-gateway --test seeds

# Licences, duplicates, sources and advisories, by cargo-deny itself
deny:
    cargo deny check
