//! The part that every link has: a main function that calls the features, something dead, and the host of a library.

use super::case::DifferCase;
use super::feature::{Feature, Language, SourceFile};

/// Live and dead code and data that belong to no feature.
const BASE: &str = r#"
static int helper(int x) { return x * 3 + 1; }
int base_table[64] = { 5, 6, 7 };
int base_live(int x) { return helper(x) + base_table[1]; }
__attribute__((visibility("hidden"))) int base_dead_table[256] = { 1, 2, 3 };
__attribute__((visibility("hidden"), noinline)) int base_dead_callee(int x) { return x + base_dead_table[x & 255]; }
__attribute__((visibility("hidden"))) int base_dead(int x) { return base_dead_callee(x) * base_dead_callee(x + 1); }
"#;

/// Calls each function of a library that is named on its line.
pub(crate) const HOST: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **words) {
    void *library = dlopen(words[1], RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
        printf("%s\n", dlerror());
        return 1;
    }
    for (int i = 2; i < count; i++) {
        int (*function)(long, long, long) = (int (*)(long, long, long))dlsym(library, words[i]);
        if (function)
            printf("%s %d\n", words[i], function(1, 2, 3));
        else
            printf("%s is not there\n", words[i]);
        fflush(stdout);
    }
    return 0;
}
"#;

fn source(name: &str, text: String) -> SourceFile {
    SourceFile { name: name.to_owned(), language: Language::C, flags: Vec::new(), text }
}

/// The objects `main.o` and `base.o` as a feature of its own.
pub(crate) fn own(case: &DifferCase, features: &[Feature]) -> Feature {
    let mut text = String::from("#include <stdio.h>\nint base_live(int);\n");
    let mut calls = String::new();
    for part in &case.parts {
        let feature = &features[part.feature];
        if feature.runs() {
            text.push_str(&format!("int {}_run(void);\n", feature.name));
            calls.push_str(&format!("    printf(\"{0} %d\\n\", {0}_run()); fflush(stdout);\n", feature.name));
        }
    }
    let name = if case.mode_name() == "shared" { "run_all" } else { "main" };
    text.push_str(&format!("int {name}(void) {{\n    printf(\"base %d\\n\", base_live(2));\n{calls}"));
    text.push_str("    return 0;\n}\n");
    Feature {
        name: "own".to_owned(),
        sources: vec![source("main.c", text), source("base.c", BASE.to_owned())],
        ..Feature::default()
    }
}

pub(crate) fn host() -> Feature {
    Feature {
        name: "host".to_owned(),
        sources: vec![source("host.c", HOST.to_owned())],
        commands: vec!["$CC host.o -o host".to_owned()],
        ..Feature::default()
    }
}
