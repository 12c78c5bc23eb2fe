//! Counts the words of its arguments.

fn main() {
    let words: usize = std::env::args().skip(1).map(|text| text.split_whitespace().count()).sum();
    println!("{words}");
}
