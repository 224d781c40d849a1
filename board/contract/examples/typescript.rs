//! Prints the TypeScript types of the web pages. `cargo xtask codegen` writes them to `board/ui/src/contract.ts`.

fn main() {
    print!("{}", board_contract::typescript());
}
