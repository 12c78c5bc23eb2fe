//! `bench kills`: links that are killed at any moment leave the old output or the new one, and nothing else.
//!
//! A link of many objects runs with lto-prune in front. At a random moment SIGKILL, SIGTERM or SIGINT is sent to it alone or to its process
//! group. Then no process of the link may be left; the output must be the old or the new one; and its folder, `TMPDIR` and `/dev/shm`
//! must be as before, for SIGKILL after one more link. Other links that are killed on the machine meanwhile would be counted here.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::corpus::{Corpus, find_linker, folder_of};
use crate::process::output;
use crate::rng::Rng;
use crate::table::{Table, publish};
use crate::{Options, Result};

const OBJECTS: usize = 40;
const FUNCTIONS: usize = 150;
/// The kernel may take so long to end the processes.
const GRACE: Duration = Duration::from_secs(2);

/// Columns of the table, which count the kills of one linker and signal.
const COLUMNS: &str = "linker, signal | kills | came late | old output | new output | other output | process left | left at once | \
                       left after the next link";
const KILLS: usize = 0;
const LATE: usize = 1;
const OLD: usize = 2;
const NEW: usize = 3;
const TORN: usize = 4;
const PROCESSES: usize = 5;
const LEFT: usize = 6;
const LEFT_FOR_GOOD: usize = 7;

pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let base = std::env::temp_dir().join(format!("kills-{}", std::process::id()));
    let case = KilledLink::prepare(&corpus.pruner, &base)?;
    let mut rng = Rng::new(1, 0);
    let mut tallies: BTreeMap<(String, &str), [usize; 8]> = BTreeMap::new();
    let mut contestants = Vec::new();
    for linker in options.linkers_or(&["lld", "mold", "bfd", "gold", "wild"]) {
        contestants.push(case.measure(&linker, &find_linker(&linker)?)?);
    }
    for number in 0..options.count.unwrap_or(100) as usize {
        let contestant = &contestants[number % contestants.len()];
        let signal = *rng.pick(&[Signal::SIGKILL, Signal::SIGKILL, Signal::SIGTERM, Signal::SIGINT]);
        let tally = tallies.entry((contestant.name.clone(), signal.as_str())).or_default();
        case.kill_one(contestant, signal, &mut rng, tally)?;
    }
    let _ = fs::remove_dir_all(&base);
    let mut table = Table::new(COLUMNS);
    let mut good = true;
    for ((linker, signal), counts) in &tallies {
        good &= counts[TORN] + counts[PROCESSES] + counts[LEFT_FOR_GOOD] == 0;
        good &= *signal == "SIGKILL" || counts[LEFT] == 0;
        let cells = counts.iter().map(usize::to_string);
        table.row(&std::iter::once(format!("{linker}, {signal}")).chain(cells).collect::<Vec<_>>());
    }
    let body = format!(
        "A link of {OBJECTS} objects through lto-prune is killed at a random moment, alone or with its process group. Old and new output are complete, \
         byte for byte. After SIGKILL the next link removes the files that are left.\n\n{}",
        table.as_str()
    );
    publish(good, corpus, options, ("kills", "Links that are killed"), &body)
}

struct KilledLink {
    base: PathBuf,
    shim: PathBuf,
    objects: Vec<String>,
}

/// A linker with its outputs for the case.
struct Contestant {
    name: String,
    path: PathBuf,
    old: Vec<u8>,
    new: Vec<u8>,
    time: Duration,
}

impl KilledLink {
    /// Compile objects. Half of their functions are dead.
    fn prepare(pruner: &Path, base: &Path) -> Result<KilledLink> {
        for folder in ["out", "tmp"] {
            fs::create_dir_all(base.join(folder))?;
        }
        let mut objects = Vec::new();
        for object in 0..OBJECTS {
            let mut text = String::new();
            for f in (0..FUNCTIONS).rev() {
                let callee = match f % 2 == 0 && f + 2 < FUNCTIONS {
                    true => format!("f{object}_{}(x + 1)", f + 2),
                    false => "x * 3".into(),
                };
                text.push_str(&format!("int f{object}_{f}(int x) {{ return {callee} + {f}; }}\n"));
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
        let said = output(gcc.args((0..OBJECTS).map(|o| format!("o{o}.c"))))?;
        if !base.join(format!("o{}.o", OBJECTS - 1)).exists() {
            return Err(format!("gcc fails: {said}").into());
        }
        folder_of(&base.join("shims"), pruner)?;
        Ok(KilledLink { base: base.into(), shim: base.join("shims/ld"), objects })
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

    fn kill_one(&self, of: &Contestant, signal: Signal, rng: &mut Rng, tally: &mut [usize; 8]) -> Result<()> {
        fs::write(self.output(), &of.old)?;
        let pause = of.time.mul_f64(rng.below(1150) as f64 / 1000.0);
        let mut child = self.command(&self.shim, &of.path).spawn()?;
        std::thread::sleep(pause);
        tally[KILLS] += 1;
        match child.try_wait()? {
            Some(_) => tally[LATE] += 1,
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
            tally[PROCESSES] += 1;
            println!("{}, {signal} after {pause:?}: {running:?} are left", of.name);
        }
        match fs::read(self.output()).ok() {
            Some(bytes) if bytes == of.old => tally[OLD] += 1,
            Some(bytes) if bytes == of.new => tally[NEW] += 1,
            other => {
                tally[TORN] += 1;
                let size = other.map(|bytes| bytes.len());
                println!("{}, {signal} after {pause:?} ({status}): output of {size:?} bytes", of.name);
            }
        }
        if self.left()? > 0 {
            tally[LEFT] += 1;
            if signal != Signal::SIGKILL {
                println!("{}, {signal} after {pause:?}: files are left", of.name);
            }
            self.command(&self.shim, &of.path).status()?;
            if self.left()? > 0 {
                tally[LEFT_FOR_GOOD] += 1;
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

fn send(child: &Child, signal: Signal, rng: &mut Rng) -> Result<()> {
    let id = Pid::from_raw(i32::try_from(child.id())?);
    match rng.chance(33) {
        true => killpg(id, signal)?,
        false => kill(id, signal)?,
    }
    Ok(())
}
