//! What an output has that the plain one has not, or lacks: libraries, exports, versions, constructors, names, the stack.
//!
//! A difference means that the originals are linked. What isn't known of the plain output is not compared.

use std::ffi::OsStr;

use super::output::PlainOutput;
use crate::config::{Config, OutputKind};
use crate::error::Result;
use crate::verify::OutputFacts;

impl PlainOutput<'_> {
    /// The first difference, in words that follow "the output".
    ///
    /// # Errors
    /// The dynamic symbols can't be read.
    pub fn difference(&self, config: &Config, facts: &OutputFacts) -> Result<Option<String>> {
        if config.output_kind == OutputKind::Executable && facts.entry == 0 {
            return Ok(Some("has no entry".to_owned()));
        }
        if let Some(needed) = self.needed.as_ref().filter(|_| !config.static_link) {
            let same = |(found, wanted): (&Vec<u8>, &Option<&str>)| {
                wanted.is_none_or(|wanted| wanted.as_bytes() == found.as_slice())
            };
            if facts.needed.len() != needed.len() || !facts.needed.iter().zip(needed).all(same) {
                let found: Vec<_> = facts.needed.iter().map(|name| String::from_utf8_lossy(name)).collect();
                let wanted: Vec<_> = needed.iter().map(|name| name.unwrap_or("?")).collect();
                return Ok(Some(format!("needs [{}], not [{}]", found.join(" "), wanted.join(" "))));
            }
        }
        if let Some(symbols) = facts.dynamic_symbols()? {
            if let Some(name) = self.exported.iter().find(|name| symbols.exports(name).is_empty()) {
                return Ok(Some(format!("does not export {}", String::from_utf8_lossy(name))));
            }
            for &(name, version, by_default) in &self.versions {
                let mut exports = symbols.exports(name).iter();
                if !exports.any(|d| d.version == version && d.by_default == by_default) {
                    let (name, version) = (String::from_utf8_lossy(name), String::from_utf8_lossy(version));
                    let at = if by_default { "@@" } else { "@" };
                    return Ok(Some(format!("does not export {name}{at}{version}")));
                }
            }
            if let Some(name) = self.defined.iter().find(|name| symbols.undefined.binary_search(name).is_ok())
            {
                return Ok(Some(format!("has {} as undefined", String::from_utf8_lossy(name))));
            }
        }
        if let Some(name) = facts.without_unwind_entry(&self.unwound)? {
            return Ok(Some(format!("has no unwind entry for {}", String::from_utf8_lossy(name))));
        }
        for (what, size, (least, most)) in
            [("init", facts.init_array, self.init_array), ("fini", facts.fini_array, self.fini_array)]
        {
            if let Some(size) = size.filter(|size| !(least..=most).contains(size)) {
                return Ok(Some(format!("has {size} bytes of {what} array, not {least} to {most}")));
            }
        }
        let names =
            [("soname", &facts.soname, self.soname), ("interpreter", &facts.interpreter, self.interpreter)];
        for (what, found, wanted) in names {
            let Some(wanted) = wanted else { continue };
            if found.as_deref() != wanted.map(OsStr::as_encoded_bytes) {
                let found = found.as_ref().map_or("".into(), |name| String::from_utf8_lossy(name));
                let wanted = wanted.map_or("".into(), OsStr::to_string_lossy);
                return Ok(Some(format!("has the {what} [{found}], not [{wanted}]")));
            }
        }
        for (what, found, wanted) in [("DT_INIT", facts.init, self.init), ("DT_FINI", facts.fini, self.fini)]
        {
            match (found, wanted) {
                (Some(found), Some(wanted)) if found != wanted => {
                    return Ok(Some(format!("has {} {what}", if found { "a" } else { "no" })));
                }
                _ => {}
            }
        }
        match (facts.tls, self.tls) {
            (false, (true, _)) => return Ok(Some("has no thread-local data".to_owned())),
            (true, (_, false)) => return Ok(Some("has thread-local data".to_owned())),
            _ => {}
        }
        match (facts.execstack, self.execstack) {
            (Some(found), Some(wanted)) if found != wanted => {
                Ok(Some(format!("has {} executable stack", if found { "an" } else { "no" })))
            }
            _ => Ok(None),
        }
    }
}
