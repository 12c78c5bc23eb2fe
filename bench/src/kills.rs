//! The command `kills`: links that are killed at any moment leave the old output or the new one, and nothing else.
//!
//! A link of many objects runs with lto-prune in front, and at a random moment within the time that it takes, or shortly after,
//! SIGKILL, SIGTERM or SIGINT is sent to it alone or to its whole process group. Then: no process of the link is there any more, the output
//! is byte for byte the old or the new one, and its folder, `TMPDIR` and `/dev/shm` are as before: at once where a
//! signal can be caught, and after one more link where it can't. Other links that are killed on the machine meanwhile would be counted here.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::corpus::{Corpus, find_linker, lto_prune};
use crate::link_programs::SplitMix64;
use crate::table::{Table, publish};
use crate::{Options, Result};

const OBJECTS: usize = 40;
const FUNCTIONS: usize = 150;
/// How long the kernel may take to end what a signal has ended.
const GRACE: Duration = Duration::from_secs(2);

/// What the kills of one kind showed.
#[derive(Debug, Default)]
struct KillTally {
    kills: usize,
    /// These links had ended before the signal came.
    late: usize,
    old: usize,
    new: usize,
    /// Their output is neither the old one nor the new one.
    torn: usize,
    processes: usize,
    /// Kills that left files, before and after the next link.
    left: usize,
    left_for_good: usize,
}

pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let base = std::env::temp_dir().join(format!("kills-{}", std::process::id()));
    let case = KilledLink::prepare(&base)?;
    let mut rng = SplitMix64::new(1);
    let mut tallies: BTreeMap<(String, &str), KillTally> = BTreeMap::new();
    let wanted = |name: &&str| options.linkers.is_empty() || options.linkers.iter().any(|l| l == name);
    let linkers: Vec<&str> = ["lld", "mold", "bfd", "gold", "wild"].into_iter().filter(wanted).collect();
    let mut contestants = Vec::new();
    for linker in linkers {
        contestants.push(case.measure(linker, &find_linker(linker)?)?);
    }
    for number in 0..options.count.unwrap_or(100) as usize {
        let contestant = &contestants[number % contestants.len()];
        let signal = *rng.pick(&[Signal::SIGKILL, Signal::SIGKILL, Signal::SIGTERM, Signal::SIGINT]);
        let tally = tallies.entry((contestant.name.clone(), signal.as_str())).or_default();
        case.kill_one(contestant, signal, &mut rng, tally)?;
    }
    let _ = fs::remove_dir_all(&base);
    let columns = [
        "linker, signal",
        "kills",
        "came late",
        "old output",
        "new output",
        "other output",
        "process left",
        "left at once",
        "left after the next link",
    ];
    let mut table = Table::new(&columns);
    let mut good = true;
    for ((linker, signal), t) in &tallies {
        good &= t.torn + t.processes + t.left_for_good == 0 && (*signal == "SIGKILL" || t.left == 0);
        let counts = [t.kills, t.late, t.old, t.new, t.torn, t.processes, t.left, t.left_for_good];
        let mut row = vec![format!("{linker}, {signal}")];
        row.extend(counts.map(|n| n.to_string()));
        table.row(&row);
    }
    let body = format!(
        "A link of {OBJECTS} objects through lto-prune is killed at a random moment, alone or with its process group. Old and new output are complete, \
         byte for byte. What can't be removed by a process that is killed, the next link removes.\n\n{}",
        table.as_str()
    );
    publish(corpus, options, "kills", "Links that are killed", &body)?;
    Ok(good)
}

struct KilledLink {
    base: PathBuf,
    shim: PathBuf,
    objects: Vec<String>,
}

/// A linker with what it makes of the case.
struct Contestant {
    name: String,
    path: PathBuf,
    old: Vec<u8>,
    new: Vec<u8>,
    time: Duration,
}

impl KilledLink {
    /// Objects of which half of the functions are dead.
    fn prepare(base: &Path) -> Result<KilledLink> {
        for folder in ["out", "tmp", "shims"] {
            fs::create_dir_all(base.join(folder))?;
        }
        let mut objects = Vec::new();
        for object in 0..OBJECTS {
            let mut text = String::new();
            for f in 0..FUNCTIONS {
                let callee = if f % 2 == 0 && f + 2 < FUNCTIONS {
                    format!("f{object}_{}(x + 1)", f + 2)
                } else {
                    "x * 3".into()
                };
                text.insert_str(0, &format!("int f{object}_{f}(int x) {{ return {callee} + {f}; }}\n"));
            }
            if object == 0 {
                let calls: String = (1..OBJECTS).map(|o| format!(" + f{o}_0(x)")).collect();
                let declarations: String = (1..OBJECTS).map(|o| format!("int f{o}_0(int);\n")).collect();
                text.push_str(&format!("{declarations}int main(int x) {{ return f0_0(x){calls}; }}\n"));
            }
            fs::write(base.join(format!("o{object}.c")), text)?;
            objects.push(format!("o{object}.o"));
        }
        let mut gcc = Command::new("gcc");
        gcc.current_dir(base).args(["-O1", "-fno-inline", "-ffunction-sections", "-c"]);
        if !gcc.args((0..OBJECTS).map(|o| format!("o{o}.c"))).status()?.success() {
            return Err("gcc fails".into());
        }
        let shim = base.join("shims/ld");
        std::os::unix::fs::symlink(lto_prune()?, &shim)?;
        Ok(KilledLink { base: base.into(), shim, objects })
    }

    fn output(&self) -> PathBuf {
        self.base.join("out/program")
    }

    fn command(&self, program: &Path, linker: &Path) -> Command {
        let mut command = Command::new(program);
        // wild collects sections if it isn't told not to.
        command
            .args(&self.objects)
            .args(["--no-gc-sections", "-e", "main", "-o", "out/program"])
            .current_dir(&self.base);
        command.env("LTO_PRUNE_LINKER", linker).env("TMPDIR", self.base.join("tmp"));
        command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        command
    }

    /// The old output, the new one, and the time of a link.
    fn measure(&self, name: &str, linker: &Path) -> Result<Contestant> {
        let made = |program: &Path| -> Result<(Vec<u8>, Duration)> {
            let start = Instant::now();
            if !self.command(program, linker).status()?.success() {
                return Err(format!("{name}: the link fails").into());
            }
            Ok((fs::read(self.output())?, start.elapsed()))
        };
        let (old, _) = made(linker)?;
        let (first, _) = made(&self.shim)?;
        let (new, time) = made(&self.shim)?;
        if first != new || new.len() >= old.len() {
            return Err(format!("{name}: two links differ, or nothing is pruned").into());
        }
        Ok(Contestant { name: name.into(), path: linker.into(), old, new, time })
    }

    fn kill_one(
        &self,
        of: &Contestant,
        signal: Signal,
        rng: &mut SplitMix64,
        tally: &mut KillTally,
    ) -> Result<()> {
        fs::write(self.output(), &of.old)?;
        let pause = of.time.mul_f64(rng.below(1150) as f64 / 1000.0);
        let mut child = self.command(&self.shim, &of.path).spawn()?;
        std::thread::sleep(pause);
        tally.kills += 1;
        match child.try_wait()? {
            Some(_) => tally.late += 1,
            None => send(&child, signal, rng)?,
        }
        let status = child.wait()?;
        let mut pause_for = Duration::from_millis(5);
        let mut running = group_members(child.id());
        while !running.is_empty() && pause_for < GRACE {
            std::thread::sleep(pause_for);
            pause_for *= 2;
            running = group_members(child.id());
        }
        if !running.is_empty() {
            tally.processes += 1;
            println!("{}, {signal} after {pause:?}: left are {running:?}", of.name);
        }
        match fs::read(self.output()).ok() {
            Some(bytes) if bytes == of.old => tally.old += 1,
            Some(bytes) if bytes == of.new => tally.new += 1,
            other => {
                tally.torn += 1;
                let size = other.map(|bytes| bytes.len());
                println!("{}, {signal} after {pause:?} ({status}): output of {size:?} bytes", of.name);
            }
        }
        if self.left()? > 0 {
            tally.left += 1;
            if signal != Signal::SIGKILL {
                println!("{}, {signal} after {pause:?}: files are left", of.name);
            }
            self.command(&self.shim, &of.path).status()?;
            if self.left()? > 0 {
                tally.left_for_good += 1;
                println!("{}, {signal} after {pause:?}: files are left for good", of.name);
            }
        }
        Ok(())
    }

    /// How many files are left that weren't there.
    fn left(&self) -> Result<usize> {
        let mut left =
            fs::read_dir(self.base.join("tmp"))?.count() + fs::read_dir(self.base.join("out"))?.count() - 1;
        for entry in fs::read_dir("/dev/shm")?.flatten() {
            if entry.file_name().to_string_lossy().starts_with("lto-prune-link-") {
                // That of a link that runs is locked.
                left += usize::from(File::open(entry.path()).is_ok_and(|folder| folder.try_lock().is_ok()));
            }
        }
        Ok(left)
    }
}

/// State and command line of each process of a process group that has not ended. The group is read, not the environment, which
/// is empty in the middle of an `execve`.
fn group_members(group: u32) -> Vec<String> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let member = |process: PathBuf| {
        let stat = fs::read_to_string(process.join("stat")).ok()?;
        // proc(5): pid (comm) state ppid pgrp ...
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?;
        let is_member = fields.nth(1)?.parse() == Ok(group) && !["Z", "X"].contains(&state);
        let line = fs::read(process.join("cmdline")).unwrap_or_default();
        is_member.then(|| format!("{state} {:.100}", String::from_utf8_lossy(&line).replace('\0', " ")))
    };
    processes.flatten().filter_map(|process| member(process.path())).collect()
}

fn send(child: &Child, signal: Signal, rng: &mut SplitMix64) -> Result<()> {
    let id = Pid::from_raw(i32::try_from(child.id())?);
    match rng.chance(33) {
        true => killpg(id, signal)?,
        false => kill(id, signal)?,
    }
    Ok(())
}
