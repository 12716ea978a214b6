//! The binary: everything is in the library.

/// Requests allocate small things on many threads; the system's allocator spends a tenth of a request on it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    reveille::cli::main()
}
