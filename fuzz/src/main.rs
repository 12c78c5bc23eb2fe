//! One reader under libFuzzer: that of `FUZZ_READER`. Built by `fuzz/run.sh`; without a fuzzer it does nothing.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    static READER: std::sync::OnceLock<fuzz::Reader> = std::sync::OnceLock::new();
    let reader = READER.get_or_init(|| {
        let name = std::env::var("FUZZ_READER").unwrap_or_default();
        let found = fuzz::READERS.iter().find(|(reader, _)| *reader == name);
        found.map_or_else(|| std::process::exit(2), |(_, reader)| *reader)
    });
    reader(bytes);
});

#[cfg(not(fuzzing))]
fn main() {
    eprintln!("built without a fuzzer: see fuzz/run.sh");
}
