//! A fixture through its matrix: every configuration that its directives name, and every linker.
//!
//! For each, the objects are built once, linked plainly and through the tool by the same driver line, in two
//! directories so that every name on the line is the same, and the two results are compared: exit status and
//! messages of the link, the outputs' headers and symbols, what the programs print and how they end. Once for each fixture the pass
//! estimate chooses which modules are decoded, and that link must keep all that the exact link keeps.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::compare;
use crate::directive::{Config, FixtureCase, Library, LibraryKind, Mode};
use crate::elf::Facts;
use crate::run::{Job, Outcome, Session};
use crate::tools::{self, Linker};

pub(crate) fn run(name: &str) {
    let dir = tools::repository().join("fixtures").join(name);
    let case = FixtureCase::read(&dir).unwrap_or_else(|e| panic!("{e}"));
    for (i, config) in case.configs.iter().enumerate() {
        let tag = format!("{name}/{}-{}-{}", config.compiler, config.opt, config.mode.name());
        let session = Session::new(&tag);
        let mut build =
            MatrixBuild { case: &case, config, session, tag, inputs: Vec::new(), wild_collects: i % 2 == 1 };
        build.compile();
        for linker in case.linkers_of(i).into_iter().filter(|linker| linker.is_asked()) {
            build.link_and_compare(linker, i == 0 && linker == Linker::Lld);
        }
    }
}

struct MatrixBuild<'a> {
    case: &'a FixtureCase,
    config: &'a Config,
    session: Session,
    tag: String,
    /// Default inputs of the link, as the line names them.
    inputs: Vec<String>,
    /// wild collects garbage unless it is told not to: every other configuration it is linked in as by default, and in
    /// the others as by other linkers, so that what goes is by us.
    wild_collects: bool,
}

/// How the objects of a fixture are linked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LinkKind {
    Plain,
    Pruned,
    /// Pruned, where the estimate chooses which modules are decoded.
    Estimated,
}

impl LinkKind {
    fn name(self) -> &'static str {
        match self {
            LinkKind::Plain => "plain",
            LinkKind::Pruned => "pruned",
            LinkKind::Estimated => "estimated",
        }
    }
}

struct Linked {
    outcome: Outcome,
    dir: PathBuf,
    output: PathBuf,
}

impl MatrixBuild<'_> {
    fn driver(&self) -> PathBuf {
        let cc = &self.config.compiler;
        tools::tool(if self.case.is_cxx() { tools::cxx(cc) } else { cc })
    }

    /// Objects and libraries, in the session's directory.
    fn compile(&mut self) {
        let case = self.case;
        let sources: Vec<String> = std::iter::once(&case.main).chain(&case.sources).cloned().collect();
        for source in &sources {
            let object = self.object(source, self.config.mode);
            self.inputs.push(format!("../{object}"));
        }
        for library in &case.libraries {
            self.library(library);
            self.inputs.push(format!("../{}", library.name));
        }
    }

    /// Compile one source of the fixture; the object's path within the session's directory.
    fn object(&mut self, source: &str, mode: Mode) -> String {
        let object = format!("{}.o", source.rsplit_once('.').map_or(source, |(stem, _)| stem));
        if let Some((folder, _)) = object.rsplit_once('/') {
            self.session.mkdir(folder);
        }
        let mut job = Job::new(self.session.dir(), self.driver())
            .arg(format!("-{}", self.config.opt))
            .words("-ffunction-sections -fdata-sections")
            .arg(mode.compile_flag());
        job = job.args(self.case.words("Compile", self.config, None));
        for flags in self.case.values("Flags", self.config, None) {
            let (file, flags) = flags.split_once('=').expect("Flags: file = flags");
            if file.trim() == source {
                job = job.words(flags);
            }
        }
        let job = job.arg("-c").arg(self.case.dir.join(source)).arg("-o").arg(&object);
        self.session.must(&job);
        object
    }

    fn library(&mut self, library: &Library) {
        let mut members = Vec::new();
        // A shared library stays one whatever the program is.
        let mode = if library.kind == LibraryKind::Shared { Mode::Shared } else { self.config.mode };
        for source in &library.sources {
            // Members may be archives or libraries that were built before.
            let made = self.case.libraries.iter().any(|l| &l.name == source);
            members.push(if made { source.clone() } else { self.object(source, mode) });
        }
        let dir = self.session.dir().to_owned();
        let job = match library.kind {
            // `q`: member names may repeat, as they do in real archives.
            LibraryKind::Archive => Job::new(&dir, "ar").words("qcs").arg(&library.name).args(members),
            LibraryKind::ThinArchive => Job::new(&dir, "ar").words("qcsT").arg(&library.name).args(members),
            LibraryKind::Shared => {
                let mut job = Job::new(&dir, self.driver()).words("-shared -o").arg(&library.name);
                job = job.arg(format!("-Wl,-soname,{}", library.name)).args(members);
                for flags in self.case.values("SharedLink", self.config, None) {
                    let (file, flags) = flags.split_once('=').expect("SharedLink: file = flags");
                    if file.trim() == library.name {
                        job = job.words(&self.expand(flags));
                    }
                }
                job
            }
        };
        self.session.must(&job);
    }

    /// `@/` is the fixture's own folder.
    fn expand(&self, text: &str) -> String {
        text.replace("@/", &format!("{}/", self.case.dir.display()))
    }

    fn link(&mut self, linker: Linker, kind: LinkKind) -> Linked {
        let pruned = kind != LinkKind::Plain;
        let name = format!("{}-{}", kind.name(), linker.name());
        let dir = self.session.mkdir(&name);
        let shims = self.session.path(&format!("shims-{name}"));
        let behind = linker.path();
        tools::shim_dir(&shims, if pruned { tools::lto_prune() } else { behind.clone() }.as_path());
        let mut job = Job::new(&dir, self.driver()).arg("-B").arg(&shims);
        job = job.args(self.config.mode.link_flags().iter().copied());
        if linker == Linker::Wild && !self.wild_collects {
            job = job.arg("-Wl,--no-gc-sections");
        }
        let inputs = self.case.values("Inputs", self.config, Some(linker));
        job = match inputs.last() {
            Some(line) => job.words(&self.expand(line)),
            None => job.args(&self.inputs),
        };
        for flags in self.case.values("Link", self.config, Some(linker)) {
            job = job.words(&self.expand(flags));
        }
        if pruned {
            job = job.arg("-Wl,--prune-report=report.json").env("LTO_PRUNE_LINKER", behind);
            job = job.args(self.case.words("Prune", self.config, Some(linker)));
        }
        match kind {
            LinkKind::Plain => {}
            LinkKind::Pruned => job = job.arg("-Wl,--prune-worth=0"),
            // Without this, values would be followed, and all live modules decoded for that.
            LinkKind::Estimated => job = job.words("-Wl,--prune-worth=1 -Wl,--prune-budget=0"),
        }
        let output = if self.config.mode == Mode::Shared { "libout.so" } else { "out" };
        let job = job.arg("-o").arg(output);
        let outcome = self.session.run(&job);
        Linked { outcome, output: dir.join(output), dir }
    }

    fn link_and_compare(&mut self, linker: Linker, estimates: bool) {
        let what = format!("{} {}", self.tag, linker.name());
        let plain = self.link(linker, LinkKind::Plain);
        let pruned = self.link(linker, LinkKind::Pruned);
        let values = |key| self.case.values(key, self.config, Some(linker));

        let expected = compare::messages(&plain.outcome.stderr, linker);
        let actual = compare::messages(&compare::not_ours(&pruned.outcome.stderr), linker);
        self.session.check_eq(
            &pruned.outcome.status,
            &plain.outcome.status,
            &format!("{what}: link\n{actual}"),
        );
        self.session.check_eq(&actual, &expected, &format!("{what}: messages of the link"));
        let fails = values("Fails");
        if !plain.outcome.ok() {
            self.session.check(!fails.is_empty(), &format!("{what}: the plain link fails:\n{expected}"));
            for text in fails {
                self.session.check(expected.contains(text), &format!("{what}: no \"{text}\" in\n{expected}"));
            }
            self.session.check(!pruned.output.exists(), &format!("{what}: an output of a failed link"));
            return;
        }
        self.session.check(fails.is_empty(), &format!("{what}: the plain link should fail"));
        self.own_messages(&pruned, &values("Warns"), &what);
        self.report(&pruned, &values("Limit"), &what);
        if self.case.same_bytes {
            let read = |linked: &Linked| std::fs::read(&linked.output).unwrap();
            self.session.check(read(&plain) == read(&pruned), &format!("{what}: outputs differ"));
        } else {
            self.symbols(&plain, &pruned, linker, &what);
        }
        if !self.case.no_run {
            self.run_both(&plain, &pruned, linker, &what);
        }
        if estimates {
            let estimated = self.link(linker, LinkKind::Estimated);
            self.estimated(&pruned, &estimated, linker, &format!("{what} estimated"));
        }
    }

    /// A link with an estimate keeps all that the exact one keeps.
    fn estimated(&mut self, exact: &Linked, estimated: &Linked, linker: Linker, what: &str) {
        self.session.check_eq(&estimated.outcome.status, &exact.outcome.status, &format!("{what}: link"));
        let facts = [exact, estimated].map(|linked| Facts::read(&linked.output));
        if let [Ok(exact), Ok(estimated)] = &facts {
            let lost: Vec<&String> = exact.defined.difference(&estimated.defined).collect();
            self.session.check(lost.is_empty(), &format!("{what}: {lost:?} go"));
        }
        if !self.case.no_run {
            let [one, two] = [exact, estimated].map(|linked| self.run_output(linked, linker));
            self.session.check_eq(&two, &one, &format!("{what}: the program behaves differently"));
        }
    }

    /// We are silent but for what the fixture expects of us.
    fn own_messages(&self, pruned: &Linked, warns: &[&str], what: &str) {
        let lines = compare::ours(&pruned.outcome.stderr);
        for text in warns {
            let found = lines.iter().any(|l| l.contains(text));
            self.session.check(found, &format!("{what}: no warning \"{text}\" in {lines:#?}"));
        }
        self.session.check(!warns.is_empty() || lines.is_empty(), &format!("{what}: unexpected {lines:#?}"));
    }

    fn report(&self, pruned: &Linked, limits: &[&str], what: &str) {
        let report = report(&self.session, &pruned.dir.join("report.json"));
        for limit in limits {
            let found = limit_names(&report).iter().any(|l| l == limit);
            self.session.check(found, &format!("{what}: no limit {limit} in {:?}", limit_names(&report)));
        }
    }

    fn symbols(&self, plain: &Linked, pruned: &Linked, linker: Linker, what: &str) {
        let read = |linked: &Linked| match Facts::read(&linked.output) {
            Ok(facts) => facts,
            Err(error) => self.session.fail(&format!("{what}: {error}")),
        };
        let (plain, pruned) = (read(plain), read(pruned));
        compare::outputs(&self.session, &plain, &pruned, what);
        let collected =
            |name: &String| linker == Linker::Wild && self.wild_collects && !plain.defined.contains(name);
        for name in self.case.words("Gone", self.config, Some(linker)) {
            self.session.check(
                plain.defined.contains(&name) || collected(&name),
                &format!("{what}: {name} is not even in the plain link"),
            );
            self.session.check(!pruned.defined.contains(&name), &format!("{what}: {name} is not gone"));
        }
        for name in self.case.words("Kept", self.config, Some(linker)).into_iter().filter(|n| !collected(n)) {
            self.session.check(
                plain.defined.contains(&name),
                &format!("{what}: {name} is not even in the plain link"),
            );
            self.session.check(pruned.defined.contains(&name), &format!("{what}: {name} is gone"));
        }
        let gone =
            |name: &String| linker == Linker::Wild && self.wild_collects && !plain.sections.contains(name);
        for name in self.case.words("Present", self.config, Some(linker)).into_iter().filter(|n| !gone(n)) {
            self.session
                .check(plain.sections.contains(&name), &format!("{what}: the plain link has no {name}"));
            self.session.check(pruned.sections.contains(&name), &format!("{what}: section {name} is gone"));
        }
    }

    fn run_both(&mut self, plain: &Linked, pruned: &Linked, linker: Linker, what: &str) {
        let one = self.run_output(plain, linker);
        let two = self.run_output(pruned, linker);
        self.session.check_eq(&two, &one, &format!("{what}: the pruned program behaves differently"));
        let values = |key| self.case.values(key, self.config, Some(linker));
        let prints: String = values("Prints").iter().map(|line| format!("{line}\n")).collect();
        if !prints.is_empty() {
            self.session.check_eq(&one.stdout, &prints, &format!("{what}: stdout"));
        }
        let exit = values("Exit").first().map_or(0, |v| v.parse().expect("Exit: a number"));
        self.session.check_eq(&one.status, &exit, &format!("{what}: exit status"));
    }

    /// Run an executable; for a shared library, the fixture's host program on it.
    fn run_output(&mut self, linked: &Linked, linker: Linker) -> Outcome {
        let mut program = linked.output.clone();
        if self.config.mode == Mode::Shared {
            let host = self.case.host.clone().expect("a shared output needs Host: or Run: no");
            program = linked.dir.join("host");
            let job = Job::new(&linked.dir, self.driver()).arg(self.case.dir.join(host));
            self.session.must(&job.arg(&linked.output).words("-ldl -o").arg(&program));
        }
        let path = format!("{}:{}", linked.dir.display(), self.session.dir().display());
        let mut job = Job::new(&linked.dir, program).env("LD_LIBRARY_PATH", path);
        for value in self.case.values("Env", self.config, Some(linker)) {
            let (key, value) = value.split_once('=').expect("Env: KEY=value");
            job = job.env(key, value);
        }
        let job = job.args(self.case.words("Args", self.config, Some(linker)));
        self.session.run(&job)
    }
}

/// A report, parsed, with what every report must have.
pub(crate) fn report(session: &Session, path: &Path) -> Value {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => session.fail(&format!("{}: {error}", path.display())),
    };
    let report: Value = match serde_json::from_str(&text) {
        Ok(report) => report,
        Err(error) => session.fail(&format!("{}: {error}", path.display())),
    };
    session.check_eq(&report["schema"], &Value::from(2), "report schema");
    for key in ["modules", "atoms", "limits"] {
        session.check(report[key].is_array(), &format!("report has no list {key}"));
    }
    report
}

/// Names of the limits in a report.
pub(crate) fn limit_names(report: &Value) -> Vec<String> {
    let limits = report["limits"].as_array().into_iter().flatten();
    limits.map(|l| l["limit"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Names of the modules in a report as linkers write them: `archive(member)`.
pub(crate) fn module_names(report: &Value) -> Vec<String> {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let full = |m: &Value| match m["archive"].as_str() {
        Some(archive) => format!("{archive}({})", text(&m["name"])),
        None => text(&m["name"]),
    };
    report["modules"].as_array().into_iter().flatten().map(full).collect()
}
