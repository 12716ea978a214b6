fn main() -> std::process::ExitCode {
    reveille::cli::main()
}
