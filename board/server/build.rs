//! The pages are taken in when this crate is compiled; when they are built anew it has to be compiled again.

fn main() {
    let pages = concat!(env!("CARGO_MANIFEST_DIR"), "/../ui/dist");
    // A folder that is not there would count as changed each time. Without it the program has no pages, and says so.
    let _ = std::fs::create_dir_all(pages);
    println!("cargo::rerun-if-changed={pages}");
}
