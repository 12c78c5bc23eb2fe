//! Every block and record, with its operands, against `llvm-bcanalyzer -dump`.

use std::fmt::Write as _;
use std::process::Command;

use summaries::bitcode::stream::{StreamStep, walk};

use super::corpus::{run, samples};

/// Blocks and records as lines: what the analyzer shows, in numbers.
fn ours(bytes: &[u8]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut open = Vec::new();
    walk(bytes, |step| match step {
        // The analyzer only names BLOCKINFO.
        StreamStep::Enter(block) => {
            open.push(block);
            lines.push(format!("block {block}"));
        }
        StreamStep::Leave => {
            let block = open.pop().unwrap();
            if block != 0 {
                lines.push("end".to_owned());
            }
        }
        StreamStep::Record { code, operands, blob } => {
            if open.last() != Some(&0) {
                let mut line = format!("record {code}");
                operands.iter().for_each(|op| write!(line, " {op}").unwrap());
                if blob.is_some() {
                    line.push_str(" blob");
                }
                lines.push(line);
            }
        }
    })
    .unwrap();
    lines
}

fn number(text: &str, key: &str) -> Option<u64> {
    let at = text.find(key)? + key.len();
    let digits: String = text[at..].chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

fn theirs(bytes: &[u8], tools: &str) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.bc");
    std::fs::write(&path, bytes).unwrap();
    let output =
        run(Command::new(format!("llvm-bcanalyzer-{tools}")).args(["-dump", "-non-symbolic"]).arg(&path));
    let text = String::from_utf8_lossy(&output).into_owned();
    let mut lines = Vec::new();
    for line in text.lines().map(str::trim_start).take_while(|l| !l.starts_with("Summary of ")) {
        let Some(body) = line.strip_prefix('<') else { continue };
        if body.starts_with("BITCODE_WRAPPER_HEADER") {
            continue;
        }
        if body.starts_with('/') {
            lines.push("end".to_owned());
        } else if body.starts_with("BLOCKINFO_BLOCK") {
            lines.push("block 0".to_owned());
        } else if let Some(block) = number(body, "BlockID=") {
            lines.push(format!("block {block}"));
        } else if body.starts_with("UnknownBlock") {
            lines.push(format!("block {}", number(body, "UnknownBlock").unwrap()));
        } else {
            let code = number(body, "codeid=").or_else(|| number(body, "UnknownCode"));
            let code = code.unwrap_or_else(|| panic!("no code in {line}"));
            // The text behind the `>` is the analyzer's own form of the operands.
            let body = &body[..body.find('>').unwrap()];
            let mut record = format!("record {code}");
            for word in body.split_whitespace().filter(|w| w.starts_with("op")) {
                let value = word.trim_end_matches('/').split_once('=').unwrap().1;
                // Shown as signed numbers.
                let value = value.parse::<i64>().unwrap() as u64;
                write!(record, " {value}").unwrap();
            }
            let rest = &line[line.find('>').unwrap()..];
            if rest.contains("blob data") || rest.contains("num-strings") {
                record.push_str(" blob");
            }
            lines.push(record);
        }
    }
    lines
}

#[test]
fn every_record_is_what_the_analyzer_says() {
    let mut records = 0;
    for sample in samples() {
        // Names of records differ between versions, so the codes are compared.
        let want = theirs(&sample.bytes, sample.tools.unwrap_or("19"));
        let range = summaries::bitcode::container::unwrap(&sample.bytes).unwrap();
        let got = ours(&sample.bytes[range]);
        for (i, (got, want)) in got.iter().zip(&want).enumerate() {
            assert_eq!(got, want, "{}, line {i}", sample.name);
        }
        assert_eq!(got.len(), want.len(), "{}", sample.name);
        records += got.len();
    }
    assert!(records > 10_000, "only {records} lines were compared");
}
