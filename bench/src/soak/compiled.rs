//! Objects of programs that an earlier run compiled, so that a new build of lto-prune is soaked in the time of the links.
//!
//! Compilers take two thirds of a soak's time, and for the same seed they make the same. A folder per case holds what
//! they made (objects and archives) and what of: the versions of compilers and assembler, the commands, the sources.
//! All that is compared word by word, so another generator or compiler never meets old objects. Left out: headers
//! of the system, which come and go with the compilers, and removal: whoever named the folder removes it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::program::SoakProgram;
use super::setup::Recipe;
use crate::{Options, Result};

/// What is asked for its version.
const TOOLS: [&str; 4] = ["gcc", "clang-19", "as", "ar"];
/// The file of a case that says what its objects were made of.
const MADE_OF: &str = "made-of";

#[derive(Debug)]
pub(crate) struct Compiled {
    dir: PathBuf,
    /// It has one line for each tool.
    versions: String,
}

impl Compiled {
    /// The folder of `--objects`, made if there is none; `None` without the option.
    pub(crate) fn find(options: &Options) -> Result<Option<Compiled>> {
        let Some(dir) = &options.objects else { return Ok(None) };
        fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        let mut versions = String::new();
        for tool in TOOLS {
            let said = Command::new(tool).arg("--version").output().map_err(|e| format!("{tool}: {e}"))?;
            versions.push_str(String::from_utf8_lossy(&said.stdout).lines().next().unwrap_or(""));
            versions.push('\n');
        }
        Ok(Some(Compiled { dir: dir.clone(), versions }))
    }

    fn made_of(&self, program: &SoakProgram, recipe: &Recipe) -> String {
        let mut text = self.versions.clone();
        for command in &recipe.compile {
            text.push_str(&command.join(" "));
            text.push('\n');
        }
        for unit in &program.units {
            text.push_str(&unit.text);
        }
        text
    }

    /// Put what was compiled for the case `name` into the folder `to`; false if nothing was, or of something else.
    pub(crate) fn take(&self, name: &str, program: &SoakProgram, recipe: &Recipe, to: &Path) -> Result<bool> {
        let from = self.dir.join(name);
        match fs::read(from.join(MADE_OF)) {
            Ok(text) if text == self.made_of(program, recipe).as_bytes() => {}
            Ok(_) => return Ok(false),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(e.into()),
        }
        outputs(&from, to)?;
        Ok(true)
    }

    /// Keep what was compiled in `from` for the case `name`, in place of what was there.
    pub(crate) fn keep(&self, name: &str, program: &SoakProgram, recipe: &Recipe, from: &Path) -> Result<()> {
        let (unfinished, to) = (self.dir.join(format!("{name}.{}", std::process::id())), self.dir.join(name));
        fs::create_dir(&unfinished)?;
        outputs(from, &unfinished)?;
        fs::write(unfinished.join(MADE_OF), self.made_of(program, recipe))?;
        if to.exists() {
            fs::remove_dir_all(&to)?;
        }
        // Whoever comes between the two finds nothing, and compiles.
        Ok(fs::rename(unfinished, to)?)
    }
}

/// Copy what compilers and archiver made.
fn outputs(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "o" || e == "a") {
            fs::copy(&path, to.join(path.file_name().unwrap_or_default()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::soak::program::Unit;

    fn program(text: &str) -> SoakProgram {
        SoakProgram::new(vec![Unit::new("u0".into(), text.into(), false)], 0)
    }

    fn recipe(option: &str) -> Recipe {
        let mut recipe = Recipe::default();
        recipe.compile.push(vec!["gcc".into(), option.into()]);
        recipe
    }

    #[test]
    fn only_objects_of_the_same_sources_and_commands_are_taken() -> Result<()> {
        let root = std::env::temp_dir().join(format!("bench-compiled-{}", std::process::id()));
        let (made, used) = (root.join("made"), root.join("used"));
        fs::create_dir_all(&made)?;
        fs::create_dir_all(&used)?;
        fs::write(made.join("u0.o"), "object")?;
        fs::write(made.join("u0.c"), "source")?;
        let kept = Compiled { dir: root.clone(), versions: "one\n".into() };
        let (recipe, other) = (recipe("-O2"), recipe("-O3"));
        assert!(!kept.take("7-gcc", &program("a"), &recipe, &used)?, "nothing is there");
        kept.keep("7-gcc", &program("a"), &recipe, &made)?;
        kept.keep("7-gcc", &program("a"), &recipe, &made)?;
        let later = Compiled { dir: root.clone(), versions: "two\n".into() };
        assert!(!kept.take("7-gcc", &program("b"), &recipe, &used)?, "another source");
        assert!(!kept.take("7-gcc", &program("a"), &other, &used)?, "other options");
        assert!(!later.take("7-gcc", &program("a"), &recipe, &used)?, "another compiler");
        assert!(!used.join("u0.o").exists());
        assert!(kept.take("7-gcc", &program("a"), &recipe, &used)?);
        assert_eq!(fs::read_to_string(used.join("u0.o"))?, "object");
        assert!(!used.join("u0.c").exists(), "sources are the case's own");
        fs::remove_dir_all(&root)?;
        Ok(())
    }
}
