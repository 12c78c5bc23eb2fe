//! Dead global elimination in LLVM bitcode (LLVM 14 to 22, ThinLTO or full): a file is rewritten with an action for each global value.
//!
//! Dropped values become weak declarations that nothing refers to ([`values`]), the bodies of dropped functions are left out, and stubs get one that traps
//! ([`stub`]). Value ids stay, so that all else is copied bit by bit ([`copier`]); what depends on it is made again: the
//! table of functions' places, the summary ([`summary`]), the string table ([`names`]), the hash by which ThinLTO caches and names promoted locals ([`rewrite`]). The symbol table is left out: LLVM makes it again of the
//! modules where there is none (`irsymtab::readBitcode`).
//!
//! Safe because of what is refused: a module with anything unknown ([`Survey`]), a kept entry of the summary that refers to something dropped. Without a summary the
//! caller's word is taken that what is kept refers only to what is kept or a stub. A wrapper is not written again. Left out: metadata of dropped
//! values, which nothing reaches, and types, constants and declarations that nothing uses any more; LLVM passes them over.

mod apply;
mod bits;
mod copier;
mod error;
mod fate;
mod module;
mod names;
mod stub;
mod summary;
mod survey;
mod values;

pub use apply::{apply, obstacle, with_fates};
pub use error::{Obstacle, RewriteError, Unsupported};
pub use fate::ValueFate;
pub use stub::assembly;
pub use survey::Survey;

use summaries::bitcode::codes::block;
use summaries::bitcode::stream::Event;
use summaries::bitcode::symbols::ValueAt;

use copier::BitstreamCopier;
use names::ValueNames;

/// The bitcode of a survey with `actions` applied; raw, whether it was wrapped or not.
///
/// Declarations of intrinsics stay whatever is said of them: no linker sees them.
///
/// The hash of a module covers its written bytes and all names. The original's hash, which is one of dropped code too, goes into it only where
/// `keeps_identity` says so: then an edit in dropped code changes the hash as well.
///
/// # Errors
/// A value whose action [`Survey::forbids`], or a reference from something kept to something dropped.
pub fn rewrite(
    survey: &Survey<'_>,
    actions: &impl Fn(ValueAt) -> ValueFate,
    keeps_identity: bool,
) -> Result<Vec<u8>, RewriteError> {
    let mut fates = Vec::new();
    for (number, of_file) in survey.file().modules.iter().enumerate() {
        fates.push(module::fates(survey, number as u32, of_file, actions)?);
    }
    let mut modules = survey.file().modules.iter().zip(&survey.types).zip(&fates).enumerate();
    let mut copier = BitstreamCopier::new(survey.stream)?;
    // Places of functions count from the identification before the module; in the source and in what is written.
    let mut base = None;
    let mut strtabs = survey.strtabs.iter().map(|old| ValueNames::new(old));
    let mut strtab = strtabs.next();
    loop {
        match copier.next()? {
            Event::Enter(block::IDENTIFICATION) => {
                let began = copier.began();
                base = Some((began, copier.copy_block(block::IDENTIFICATION)?));
            }
            Event::Enter(block::MODULE) => {
                let Some((number, ((of_file, types), fates))) = modules.next() else {
                    return Err(Unsupported::Place("a module").into());
                };
                let began = copier.began();
                let at = copier.open(block::MODULE);
                let base = base.take().unwrap_or((began, at));
                let names = strtab.as_mut();
                let names = names.ok_or(Unsupported::Place("a string table"))?;
                let of = module::SourceModule {
                    number: number as u32,
                    module: of_file,
                    types,
                    fates,
                    keeps_identity,
                };
                module::Rewriter::new(&mut copier, of, names, base).run()?;
            }
            Event::Enter(block::SYMTAB) => {
                copier.drop_block();
            }
            Event::Enter(block::STRTAB) => {
                copier.drop_block();
                if let Some(names) = &strtab {
                    let mut written = Ok(());
                    copier.write_block(block::STRTAB, names::WIDTH, |out| written = names.write(out))?;
                    written?;
                }
                strtab = strtabs.next();
            }
            Event::Enter(block) => {
                copier.copy_block(block)?;
            }
            Event::Leave | Event::Record(_) => {}
            Event::End => return Ok(copier.out.finish()),
        }
    }
}
