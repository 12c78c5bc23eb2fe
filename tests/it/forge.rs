//! The scripts of the size action (.github/actions/size), run on a fixture repository with a stand-in for `gh`.

use std::fs;

use crate::run::{Job, Outcome, Session};
use crate::tools;

/// It stands for the forge: a file is one comment, and the artefact of the base branch is a folder.
const GH: &str = include_str!("programs/forge_gh.sh");

struct Forge {
    session: Session,
}

impl Forge {
    fn new(name: &str) -> Self {
        let mut session = Session::new(&format!("forge/{name}"));
        session.script("bin/gh", GH);
        session.mkdir("forge/comments");
        session.write("main.c", "int spare(int x) { return x * 3; }\nint main(int c, char **v) { (void)v; return spare(c) - 3; }\n");
        session.cmd("gcc -O0 main.c -o app");
        std::os::unix::fs::symlink(tools::lto_prune(), session.path("bin/lto-prune")).unwrap();
        session.write("size.toml", "[symbol]\nspare = \"1K\"\n");
        Forge { session }
    }

    fn run(&mut self, script: &str, words: &[&str], variables: &[(&str, &str)]) -> Outcome {
        let dir = self.session.dir().to_owned();
        let script = tools::repository().join(".github/actions/size").join(script);
        let path = tools::path_with(&dir.join("bin"));
        let mut job = Job::new(&dir, script).env("PATH", path).env("FORGE", dir.join("forge"));
        for name in ["GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"] {
            job = job.env(name, dir.join(name));
        }
        job = job.env("RUNNER_TEMP", &dir).env("GITHUB_REPOSITORY", "us/app");
        for word in words {
            job = job.arg(word);
        }
        for (name, value) in variables {
            job = job.env(name, value);
        }
        self.session.run(&job)
    }

    /// The value of the last output of this name.
    fn output(&self, name: &str) -> String {
        let text = self.session.text("GITHUB_OUTPUT");
        let last = text.lines().rev().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        last.unwrap().to_owned()
    }

    fn comment(&self, number: u32) -> Option<String> {
        fs::read_to_string(self.session.path(&format!("forge/comments/{number}"))).ok()
    }
}

#[test]
fn sizes_are_compared_with_the_base_branch() {
    let mut forge = Forge::new("measure");
    let variables = [
        ("FILES", "app\n"),
        ("BUDGET", "size.toml"),
        ("BASE", "main"),
        ("WORKFLOW", "us/app/.github/workflows/size.yml@refs/pull/7/merge"),
    ];
    let outcome = forge.run("measure.sh", &[], &variables);
    assert!(outcome.ok(), "{}", outcome.stderr);
    let first = std::path::PathBuf::from(forge.output("folder"));
    let text = fs::read_to_string(first.join("comment.md")).unwrap();
    assert!(
        text.contains("There is no file of `main` to compare with.") && text.contains("| spare |"),
        "{text}"
    );
    assert!(text.contains("| ok |"), "{text}");
    assert_eq!(forge.output("status"), "0");
    let calls = forge.session.text("forge/calls");
    assert!(calls.contains("--workflow size.yml --branch main"), "{calls}");

    // The next run finds the files of this one, and a limit is broken.
    fs::rename(&first, forge.session.path("forge/artefact")).unwrap();
    forge.session.write("more.c", "int more(int x) { return x + 1; }\n");
    forge.session.cmd("gcc -O0 main.c more.c -o app");
    forge.session.write("size.toml", "[symbol]\nspare = 1\n");
    let outcome = forge.run("measure.sh", &[], &variables);
    assert!(outcome.ok(), "{}", outcome.stderr);
    let text =
        fs::read_to_string(std::path::PathBuf::from(forge.output("folder")).join("comment.md")).unwrap();
    assert!(text.contains("| added | more |") && text.contains("| OVER |"), "{text}");
    assert_eq!(forge.output("status"), "1");
    assert!(forge.session.text("GITHUB_STEP_SUMMARY").ends_with(&text));

    // A file that is not there ends the step with its name; one of limits that can't be read makes the status 2.
    let outcome = forge.run("measure.sh", &[], &[("FILES", "absent")]);
    assert!(!outcome.ok() && outcome.stderr.contains("absent"), "{}", outcome.stderr);
    let outcome = forge.run("measure.sh", &[], &[("FILES", "app"), ("BUDGET", "absent.toml")]);
    assert!(outcome.ok() && outcome.stderr.contains("absent.toml"), "{}", outcome.stderr);
    assert_eq!(forge.output("status"), "2");
}

#[test]
fn there_is_one_comment_and_it_is_ours() {
    let mut forge = Forge::new("comment");
    // A stranger wrote the marker.
    forge.session.write("forge/comments/1", "stranger: <!-- lto-prune size -->\n");
    forge.session.write("body.md", "## Size\n@everybody `$(touch pwned)` \"quoted\"\n");
    for text in ["one", "two"] {
        forge.session.write("body.md", format!("## Size\n@everybody `$(touch pwned)` {text}\n"));
        let outcome = forge.run("comment.sh", &["7", "body.md"], &[]);
        assert!(outcome.ok(), "{}", outcome.stderr);
    }
    let comment = forge.comment(2).unwrap();
    assert!(
        comment.starts_with("robot: <!-- lto-prune size -->\n## Size\n") && comment.contains("two"),
        "{comment}"
    );
    assert!(!comment.contains("@everybody") && !forge.session.path("pwned").exists(), "{comment}");
    assert!(forge.comment(3).is_none() && forge.comment(1).unwrap().starts_with("stranger"));
    forge.session.write("body.md", "x".repeat(100_000));
    assert!(forge.run("comment.sh", &["7", "body.md"], &[]).ok());
    assert!(forge.comment(2).unwrap().len() < 65_000);
    assert_eq!(forge.run("comment.sh", &["7/../8", "body.md"], &[]).status, 2);
}

#[test]
fn a_fork_is_commented_from_a_trusted_workflow() {
    let mut forge = Forge::new("fork");
    forge.session.write("forge/artefact/comment.md", "## Size\nof a fork\n");
    let of = |commit| [("RUN", "41"), ("COMMIT", commit), ("HEAD", "them:branch")];
    let outcome = forge.run("comment/from_run.sh", &[], &of("old"));
    assert!(outcome.ok() && outcome.stdout.contains("no open pull request has old"), "{}", outcome.stderr);
    assert!(forge.comment(1).is_none());
    let outcome = forge.run("comment/from_run.sh", &[], &of("newest"));
    assert!(outcome.ok(), "{}", outcome.stderr);
    assert!(forge.comment(1).unwrap().contains("of a fork"));
    // The archive of a fork may hold a link to a file of the machine.
    fs::remove_file(forge.session.path("forge/artefact/comment.md")).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", forge.session.path("forge/artefact/comment.md")).unwrap();
    let outcome = forge.run("comment/from_run.sh", &[], &of("newest"));
    assert!(!outcome.ok() && outcome.stderr.contains("no comment.md"), "{}", outcome.stderr);
}
