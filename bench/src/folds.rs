//! `bench folds`: what `--icf=safe` of lld saves, alone and behind lto-prune.
//!
//! lld folds functions that are alike only where an object says of which the addresses matter; gcc's objects don't, and
//! lto-prune says it for them. Sizes are of `.text`. The last columns are what folding saves on each side.

use std::path::Path;

use crate::corpus::{Corpus, Link, find_linker};
use crate::process::run_ok;
use crate::symbols::text_size;
use crate::table::{Table, count, publish_good};
use crate::{Options, Result};

/// The cells of a link's row.
fn measure(corpus: &Corpus, options: &Options, link: &Link, lld: &Path, ours: &Path) -> Result<Vec<String>> {
    let scratch = corpus.scratch(&format!("folds/{}-{}", link.program, link.mode))?;
    let mut sizes = Vec::new();
    for (i, (linker, folds)) in
        [(lld, false), (lld, true), (ours, false), (ours, true)].into_iter().enumerate()
    {
        let output = scratch.join(format!("out{i}"));
        let mut command = corpus.linker_command(link, linker, &output);
        command.env("LTO_PRUNE_LINKER", lld).env_remove("LTO_PRUNE_FLAGS");
        if linker == ours {
            command.args([&format!("--prune-level={}", options.level), "--prune-no-cache", "--prune-strict"]);
        }
        if folds {
            command.arg("--icf=safe");
        }
        run_ok(&mut command, &scratch)?;
        sizes.push(text_size(&output)?);
    }
    let [plain, plain_folded, pruned, pruned_folded] = sizes.as_slice() else {
        return Err("four links, and not four sizes".into());
    };
    let saved = |from: u64, to: u64| {
        let difference = from as f64 - to as f64;
        format!("{:.2}%", difference / from as f64 * 100.0)
    };
    Ok(vec![
        link.name(),
        count(*plain),
        count(*plain_folded),
        count(*pruned),
        count(*pruned_folded),
        saved(*plain, *plain_folded),
        saved(*pruned, *pruned_folded),
    ])
}

/// The command. True unless a link failed.
pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let lld = find_linker("lld")?;
    let ours = corpus.shims()?.join("ld.lto-prune");
    let mut table = Table::new(&[
        "link",
        "lld",
        "lld `--icf=safe`",
        "ours",
        "ours `--icf=safe`",
        "saved by lld",
        "saved behind ours",
    ]);
    let good = table.links(corpus, |link| measure(corpus, options, link, &lld, &ours));
    let body = format!(
        "Bytes of `.text`, linked by lld alone and by lld behind lto-prune at `--prune-level={}`, each without and with \
         `--icf=safe`, and what that option saves on each side.\n\n{}",
        options.level,
        table.as_str()
    );
    publish_good(good, corpus, options, "folds", "What folding saves", &body)
}
