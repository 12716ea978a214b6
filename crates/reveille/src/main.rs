//! The binary: everything is in the library.

/// Requests allocate small things on many threads; the system's allocator spends a tenth of a request on it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    // A huge page that is touched for the first time is cleared as a whole: many agents woken at once waited for that,
    // and the half-used buffers of thousands of connections count in full.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    reveille::cli::main()
}
