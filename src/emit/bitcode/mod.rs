//! Dead global elimination in LLVM bitcode (LLVM 14 to 22, ThinLTO or full).
//!
//! Dropped values become weak declarations without references ([`values`]), the bodies of dropped functions are left
//! out, and stubs get a body that traps ([`stub`]). Value ids do not change, so all other bits are copied
//! ([`copier`]). The table of functions' places, the summary ([`summary`]), the string table ([`values::ValueNames`]) and the
//! module hash of ThinLTO ([`rewrite`]) are written again. The symbol table is left out, and LLVM builds it again
//! (`irsymtab::readBitcode`).
//!
//! A module with an unknown record is rejected ([`Survey`]), and so is a kept entry of the summary that refers to a
//! dropped value. Without a summary the caller guarantees this. Metadata of dropped values, and unused types,
//! constants and declarations are kept; LLVM ignores them.

mod apply;
mod bits;
mod copier;
mod error;
mod module;
mod stub;
mod summary;
mod survey;
mod values;

pub use apply::{apply, obstacle, with_fates};
pub use error::{Obstacle, RewriteError, Unsupported, ValueFate};
pub use stub::assembly;
pub use survey::Survey;

use summaries::bitcode::codes::block;
use summaries::bitcode::stream::Event;
use summaries::bitcode::symbols::ValueAt;

use copier::BitstreamCopier;
use values::ValueNames;

/// The bitcode of a survey with `actions` applied; raw, whether it was wrapped or not.
///
/// Declarations of intrinsics are always kept, since no linker sees them.
///
/// The hash of a module covers its written bytes and all names. It covers the original's hash only with
/// `keeps_identity`. Then it also changes with dropped code.
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
    // Places of functions are counted from the identification before the module, in the source and in the output.
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
                    copier.write_block(block::STRTAB, values::WIDTH, |out| written = names.write(out))?;
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
