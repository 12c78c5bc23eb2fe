//! The answer of a link: its report, remarks, statistics and messages, given when the link has ended.

use std::path::Path;

use super::schema::Report;
use super::{accounting, contents, json, remarks, table};
use crate::config::{Config, Stats};
use crate::error::{Error, Stage};
use crate::ids::named;
use crate::inputs::mapped::MappedFile;
use crate::messages;

named! {
    /// How the linker ended on the line that made the output, or on the originals.
    pub enum LinkerEnd {
        Succeeded = "succeeded",
        Failed = "failed",
        /// `--prune-strict`: an error of ours came before it.
        NotRun = "not-run",
    }
}

/// The report of a link and its messages, until the linker has ended.
#[derive(Debug, Default)]
pub struct LinkAnswer {
    /// The report, if the user wants it in any form.
    pub report: Option<Box<Report>>,
    /// The text of `--prune-why` about the symbols that it names.
    pub why: String,
    /// A message if the link succeeds; an error under `--prune-strict`.
    pub warning: Option<String>,
    /// The originals were to be linked to find out whether the warning holds.
    pub needs_originals: bool,
}

impl LinkAnswer {
    /// The answer of a link that was not analysed to the end, for a reason.
    pub fn without_analysis(config: &Config, reason: &str) -> Self {
        if !config.wants_report() {
            return LinkAnswer::default();
        }
        let why = match config.prune.why.is_empty() {
            true => String::new(),
            false => format!("{}: not analysed: {reason}\n", config.output.display()),
        };
        let report = Report { not_pruned: Some(reason.to_owned()), ..Report::new(config) };
        LinkAnswer { report: Some(Box::new(report)), why, ..LinkAnswer::default() }
    }

    /// Whether there is something to say after the linker.
    pub fn is_awaited(&self) -> bool {
        self.report.is_some() || self.warning.is_some()
    }

    /// Write and print what was asked for. A file that can't be written is an error message, and the others are written.
    pub fn give(&mut self, config: &Config, end: LinkerEnd) {
        let Some(report) = &mut self.report else { return };
        report.linked = end.name().into();
        let prune = &config.prune;
        // A pipe must not be read, and an output that is no file of ours to read any more leaves the fields empty.
        if end == LinkerEnd::Succeeded
            && config.output.metadata().is_ok_and(|meta| meta.is_file())
            && let Ok(data) = MappedFile::open(&config.output)
        {
            report.loaded.output = accounting::loaded_bytes(&data);
            report.file = prune.report.is_some().then(|| contents::file(&data));
        }
        if let Some(path) = &prune.report {
            let text = json::text(report).map_err(std::io::Error::from);
            written(config, path, "report", text.and_then(|text| std::fs::write(path, text)));
        }
        if let Some(path) = &prune.remarks {
            written(config, path, "remarks", std::fs::write(path, remarks::remarks(report)));
        }
        if let Some(of_linker) = config.opt_remarks.as_ref().filter(|_| end == LinkerEnd::Succeeded)
            && let Some(text) = remarks::missing_in_linkers(report, of_linker)
        {
            match of_linker.is_text() {
                true => {
                    let appended = messages::append(&of_linker.file, text.as_bytes());
                    written(config, &of_linker.file, "remarks", appended);
                }
                false => messages::warning(
                    config,
                    format_args!(
                        "{}: only remarks in the format yaml can be added; remarks about removed functions are missing: use \
                         --opt-remarks-format=yaml or --prune-remarks",
                        of_linker.file.display()
                    ),
                ),
            }
        }
        match (self.why.is_empty(), report.analysed) {
            (true, _) => {}
            (false, true) => messages::to_stdout(config, &self.why),
            // The output may be the standard output.
            (false, false) => messages::to_stderr(config, &self.why),
        }
        let stats = table::stats(report, config, prune.stats.unwrap_or(Stats::Short));
        match (prune.stats.is_some(), prune.log.is_some()) {
            (true, _) => messages::to_stderr(config, &stats),
            (false, true) => messages::to_log(config, &stats),
            (false, false) => {}
        }
    }
}

fn written(config: &Config, path: &Path, what: &str, result: std::io::Result<()>) {
    if let Err(error) = result {
        messages::not_written(config, &Error::io(Stage::Report, path, &format!("write the {what}"), error));
    }
}
