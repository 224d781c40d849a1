//! Recompiles this crate when the web pages change, because they are embedded at compile time.

fn main() {
    let pages = concat!(env!("CARGO_MANIFEST_DIR"), "/../ui/dist");
    // Cargo treats a missing folder as always changed, so create it. With an empty folder the server has no pages and says so.
    let _ = std::fs::create_dir_all(pages);
    println!("cargo::rerun-if-changed={pages}");
}
