//! Watching a program's indirect calls as it runs: breakpoints, and the call done in its place.
//!
//! Each site's first byte becomes `int3`. On a hit the target is computed from registers and memory, recorded, and the
//! call or jump is done by setting registers and pushing the return address: nothing is single-stepped, so threads never
//! see a site without its breakpoint. A site that was hit often is taken out, and counted as such. All processes
//! below the command are followed through fork and exec; breakpoints go into those that run the program, and a
//! process made by fork has its parent's.
//! Left out: real-time signals, which end the trace with an error; stops for job control, which don't stop.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::{Command, Stdio};

use iced_x86::{Code, Instruction, OpKind, Register};
use nix::errno::Errno;
use nix::libc::{PTRACE_EVENT_EXEC, user_regs_struct};
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{self, Signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::library_functions::{LibraryFunctions, read_word};
use super::program::TracedProgram;
use crate::Result;

const BREAKPOINT: [u8; 1] = [0xcc];
/// `si_code` of a trap by `int3`.
const SI_KERNEL: i32 = 0x80;
/// Key of the entry point in the vector that `/proc/PID/auxv` shows.
const AT_ENTRY: u64 = 9;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CallTarget {
    /// The address is one of the program's file.
    Inside(u64),
    /// A function of a shared library by the names that it goes by; none: code made at run time.
    Library(BTreeSet<String>),
}

#[derive(Debug, Default)]
pub(super) struct Observed {
    pub(super) hits: u64,
    /// The values say how often each was hit.
    pub(super) targets: BTreeMap<CallTarget, u64>,
}

#[derive(Debug, Default)]
pub(super) struct Trace {
    /// Exit status of the command; 128 + signal if it was killed.
    pub(super) status: i32,
    /// How often the program was started.
    pub(super) processes: usize,
    /// What was observed, by the address of the instruction in the program's file.
    pub(super) sites: BTreeMap<u64, Observed>,
    /// Sites of a process that could not be watched on: memory that the call needs wasn't there.
    pub(super) lost: u64,
}

#[derive(Debug)]
pub(crate) struct Run<'a> {
    pub(crate) args: &'a [&'a OsStr],
    pub(crate) dir: &'a Path,
    pub(crate) stdout: &'a Path,
    pub(crate) stderr: &'a Path,
    /// A site is taken out after so many hits.
    pub(crate) limit: u64,
}

/// A process that runs the program.
struct Image {
    /// What is added to the file's addresses.
    bias: u64,
    memory: File,
    library_functions: LibraryFunctions,
}

struct Tracer<'p> {
    program: &'p TracedProgram,
    limit: u64,
    /// What each process or thread runs; `None` is something else than the program.
    images: HashMap<Pid, Option<Image>>,
    trace: Trace,
}

/// Run a command, and trace `program` in it and in all that it starts.
///
/// # Errors
/// If the command can't be run, or the kernel refuses to trace it.
pub(super) fn trace(program: &TracedProgram, run: &Run<'_>) -> Result<Trace> {
    // A shell that stops itself, so that it can be seized before it becomes the command.
    let mut command = Command::new("sh");
    command.args(["-c", "kill -STOP $$; exec \"$@\"", "sh"]).args(run.args).current_dir(run.dir);
    command.env("LC_ALL", "C.UTF-8");
    command.stdin(Stdio::null()).stdout(File::create(run.stdout)?).stderr(File::create(run.stderr)?);
    #[allow(clippy::zombie_processes, reason = "the loop below waits for it, and for all that it starts")]
    let child = command.spawn()?;
    let root = Pid::from_raw(child.id() as i32);
    match waitpid(root, Some(WaitPidFlag::WUNTRACED | WaitPidFlag::__WALL))? {
        WaitStatus::Stopped(_, Signal::SIGSTOP) => {}
        other => return Err(format!("the shell did not stop: {other:?}").into()),
    }
    let options = Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_TRACEFORK
        | Options::PTRACE_O_TRACEVFORK
        | Options::PTRACE_O_TRACEEXEC
        | Options::PTRACE_O_EXITKILL;
    ptrace::seize(root, options)?;
    signal::kill(root, Signal::SIGCONT)?;
    let mut tracer = Tracer { program, limit: run.limit, images: HashMap::new(), trace: Trace::default() };
    tracer.follow(root)?;
    Ok(tracer.trace)
}

/// A process may be killed at any time: then there is nothing left to do with it.
fn unless_gone(result: nix::Result<()>) -> Result<()> {
    match result {
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

impl Tracer<'_> {
    /// Until everything below `root` has ended.
    fn follow(&mut self, root: Pid) -> Result<()> {
        loop {
            // Of this thread alone: others may trace too.
            let status = match waitpid(None, Some(WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD)) {
                Ok(status) => status,
                Err(Errno::EINTR) => continue,
                Err(Errno::ECHILD) => return Ok(()),
                Err(e) => return Err(format!("waiting for the traced processes: {e}").into()),
            };
            match status {
                WaitStatus::Exited(pid, code) => self.ended(pid, root, code),
                WaitStatus::Signaled(pid, signal, _) => self.ended(pid, root, 128 + signal as i32),
                WaitStatus::Stopped(pid, Signal::SIGTRAP) => {
                    let ours = self.hit(pid)?;
                    unless_gone(ptrace::cont(pid, (!ours).then_some(Signal::SIGTRAP)))?;
                }
                WaitStatus::Stopped(pid, signal) => unless_gone(ptrace::cont(pid, signal))?,
                WaitStatus::PtraceEvent(pid, _, event) => {
                    if event == PTRACE_EVENT_EXEC {
                        self.images.remove(&pid);
                        self.insert_breakpoints(pid)?;
                    }
                    unless_gone(ptrace::cont(pid, None))?;
                }
                _ => {}
            }
        }
    }

    fn ended(&mut self, pid: Pid, root: Pid, status: i32) {
        self.images.remove(&pid);
        if pid == root {
            self.trace.status = status;
        }
    }

    /// What a process or thread runs; `None` if that is another program.
    fn image(&mut self, pid: Pid) -> Option<&mut Image> {
        let program = self.program;
        self.images.entry(pid).or_insert_with(|| Image::open(pid, program)).as_mut()
    }

    fn insert_breakpoints(&mut self, pid: Pid) -> Result<()> {
        let Some(image) = self.image(pid) else { return Ok(()) };
        let (bias, memory) = (image.bias, image.memory.try_clone()?);
        self.trace.processes += 1;
        for site in self.program.sites.keys() {
            if self.trace.sites.get(site).is_none_or(|o| o.hits < self.limit) {
                memory.write_all_at(&BREAKPOINT, site.wrapping_add(bias))?;
            }
        }
        Ok(())
    }

    /// A trap. Whether it was one of our breakpoints; then the call is done.
    fn hit(&mut self, pid: Pid) -> Result<bool> {
        let (Ok(info), Ok(mut registers)) = (ptrace::getsiginfo(pid), ptrace::getregs(pid)) else {
            return Ok(true);
        };
        let (program, limit) = (self.program, self.limit);
        if info.si_code != SI_KERNEL {
            return Ok(false);
        }
        let Some(image) = self.image(pid) else { return Ok(false) };
        let site = registers.rip.wrapping_sub(1).wrapping_sub(image.bias);
        let Some(instruction) = program.sites.get(&site) else { return Ok(false) };
        registers.rip = site.wrapping_add(image.bias);
        let Some(target) = perform(instruction, &mut registers, image) else {
            // The instruction itself will say what is wrong.
            image.restore(program, site)?;
            self.trace.lost += 1;
            unless_gone(ptrace::setregs(pid, registers))?;
            return Ok(true);
        };
        unless_gone(ptrace::setregs(pid, registers))?;
        let target = image.name(target, program, pid);
        let observed = self.trace.sites.entry(site).or_default();
        observed.hits += 1;
        *observed.targets.entry(target).or_default() += 1;
        if observed.hits >= limit
            && let Some(image) = self.image(pid)
        {
            image.restore(program, site)?;
        }
        Ok(true)
    }
}

impl Image {
    fn open(pid: Pid, program: &TracedProgram) -> Option<Image> {
        let file = fs::metadata(format!("/proc/{pid}/exe")).ok()?;
        if (file.dev(), file.ino()) != program.identity {
            return None;
        }
        let vector = fs::read(format!("/proc/{pid}/auxv")).ok()?;
        let words: Vec<u64> =
            vector.chunks_exact(8).filter_map(|w| w.try_into().ok().map(u64::from_le_bytes)).collect();
        let entry = words.chunks_exact(2).find(|pair| pair[0] == AT_ENTRY)?[1];
        let memory = File::options().read(true).write(true).open(format!("/proc/{pid}/mem")).ok()?;
        Some(Image {
            bias: entry.wrapping_sub(program.entry),
            memory,
            library_functions: LibraryFunctions::default(),
        })
    }

    fn restore(&self, program: &TracedProgram, site: u64) -> Result<()> {
        match program.first_byte(site) {
            Some(byte) => Ok(self.memory.write_all_at(&[byte], site.wrapping_add(self.bias))?),
            None => Ok(()),
        }
    }

    /// What a target at run time is; what a jump of `.plt` leads to, for one there.
    fn name(&mut self, target: u64, program: &TracedProgram, pid: Pid) -> CallTarget {
        let inside = |address: u64| {
            let address = address.wrapping_sub(self.bias);
            (program.extent.0..program.extent.1).contains(&address).then_some(address)
        };
        let Some(address) = inside(target) else {
            return CallTarget::Library(self.library_functions.names(
                target,
                program,
                pid,
                self.bias,
                &self.memory,
            ));
        };
        let Some(slot) = program.plt.get(&address) else { return CallTarget::Inside(address) };
        if let Some(name) = program.slots.get(slot) {
            return CallTarget::Library(BTreeSet::from([name.clone()]));
        }
        // An IFUNC of the program itself.
        let implementation = read_word(&self.memory, slot.wrapping_add(self.bias));
        CallTarget::Inside(implementation.and_then(inside).unwrap_or(address))
    }
}

/// Do what the call or jump at `registers.rip` does; the target, or `None` if that needs memory that isn't there.
fn perform(instruction: &Instruction, registers: &mut user_regs_struct, image: &Image) -> Option<u64> {
    let target = if instruction.op0_kind() == OpKind::Register {
        general(registers, instruction.op0_register())?
    } else {
        let address = instruction.virtual_address(0, 0, |register, _, _| general(registers, register))?;
        // The decoder has made the address of such an operand from the file's.
        let relative = instruction.is_ip_rel_memory_operand();
        read_word(&image.memory, if relative { address.wrapping_add(image.bias) } else { address })?
    };
    if instruction.code() == Code::Call_rm64 {
        let after = registers.rip.wrapping_add(instruction.len() as u64);
        let top = registers.rsp.wrapping_sub(8);
        image.memory.write_all_at(&after.to_le_bytes(), top).ok()?;
        registers.rsp = top;
    }
    registers.rip = target;
    Some(target)
}

/// What a register of an address holds, or the base of a segment.
fn general(registers: &user_regs_struct, register: Register) -> Option<u64> {
    Some(match register {
        Register::RAX => registers.rax,
        Register::RCX => registers.rcx,
        Register::RDX => registers.rdx,
        Register::RBX => registers.rbx,
        Register::RSP => registers.rsp,
        Register::RBP => registers.rbp,
        Register::RSI => registers.rsi,
        Register::RDI => registers.rdi,
        Register::R8 => registers.r8,
        Register::R9 => registers.r9,
        Register::R10 => registers.r10,
        Register::R11 => registers.r11,
        Register::R12 => registers.r12,
        Register::R13 => registers.r13,
        Register::R14 => registers.r14,
        Register::R15 => registers.r15,
        Register::FS => registers.fs_base,
        Register::GS => registers.gs_base,
        Register::ES | Register::CS | Register::SS | Register::DS => 0,
        _ => return None,
    })
}
