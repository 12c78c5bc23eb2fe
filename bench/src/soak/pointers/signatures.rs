//! Carriers that are long signatures: arguments on the stack, structures by value of any size, what the callee ignores, and functions
//! that jump on to another one of the same signature.

use super::{Chain, Weaver};

/// How a chain's value is among the parameters.
enum Within {
    Itself,
    /// In a structure that is passed by value.
    Record,
}

impl Weaver {
    /// Through a function that gives back what one of many parameters holds.
    pub(super) fn signature(&mut self, chain: &mut Chain) {
        let id = self.fresh();
        let count = self.rng.range(3, 13);
        let at = self.rng.below(count);
        let within = if self.rng.one_in(2) { Within::Record } else { Within::Itself };
        let record = format!("struct sig{id}");
        self.record(id);
        let (mut parameters, mut actuals, mut looks) = (Vec::new(), Vec::new(), String::new());
        for i in 0..count {
            let (kind, actual, look) = match (self.rng.below(8), &within) {
                (_, Within::Itself) if i == at => ("fn", chain.value.clone(), String::new()),
                (_, Within::Record) if i == at => (&*record, format!("s{id}"), String::new()),
                (0, _) => ("double", "1.5".to_owned(), format!("sum += p{i} > 1.0;")),
                (1, _) => ("fn", self.function("decoy", chain.unit), format!("sum += p{i} == 0;")),
                (2, _) => ("long double", "2.5L".to_owned(), format!("sum += p{i} > 2.0L;")),
                (3, _) => (&*record, format!("o{id}"), format!("sum += (unsigned char)p{i}.first[0];")),
                (4, _) => ("void *", "&x".to_owned(), format!("touch((unsigned *)p{i});")),
                _ => ("unsigned", "y".to_owned(), format!("sum = sum * 3u + p{i};")),
            };
            parameters.push(format!("{kind} p{i}"));
            actuals.push(actual);
            // An unused parameter need not be passed.
            if self.rng.one_in(2) {
                looks.push_str(&look);
            }
        }
        let give = match (within, self.rng.below(3)) {
            (Within::Itself, 0) => format!("fn volatile *q = &p{at}; return *q;"),
            (Within::Itself, _) => format!("return p{at};"),
            (Within::Record, 0) => {
                format!("{record} *volatile q = &p{at}; {record} c = *q; return c.f;")
            }
            (Within::Record, _) => format!("return p{at}.f;"),
        };
        let parameters = parameters.join(", ");
        let mut callee = self.signed(id, &parameters, &format!("{looks} {give}"));
        for _ in 0..self.rng.below(3) {
            let next = self.fresh();
            let passed: Vec<String> = (0..count).map(|i| format!("p{i}")).collect();
            let passed = passed.join(", ");
            let body = match self.rng.below(3) {
                0 => {
                    format!(
                        "static fn (*const to[2])({parameters}) = {{{callee}, {callee}}}; return to[sum & 1u]({passed});"
                    )
                }
                1 => format!("fn r = {callee}({passed}); touch(&sum); return r;"),
                _ => format!("return {callee}({passed});"),
            };
            callee = self.signed(next, &parameters, &body);
        }
        let decoy = self.function("decoy", chain.unit);
        let place = if self.rng.one_in(3) { "static " } else { "" };
        let value = &chain.value;
        let fill = format!(
            "{place}{record} s{id}, o{id}; memset(&s{id}, 1, sizeof s{id}); memset(&o{id}, 1, sizeof o{id}); s{id}.f = {value}; o{id}.f = {decoy};"
        );
        let copy = match self.rng.below(3) {
            0 => format!(
                "static {record} k{id}; {record} *volatile h{id} = &k{id}; *h{id} = s{id}; touch(&x);"
            ),
            _ => String::new(),
        };
        let actuals = actuals.join(", ");
        let actuals = match copy.is_empty() {
            true => actuals,
            false => actuals.replace(&format!("s{id}"), &format!("*h{id}")),
        };
        chain.body.push_str(&format!(
            "  {fill} {copy} (void)s{id}; (void)o{id};\n  fn v{id} = {callee}({actuals});\n"
        ));
        chain.value = format!("v{id}");
    }

    /// A structure of any size with a function in it.
    fn record(&mut self, id: usize) {
        let size = |rng: &mut super::Rng| match rng.below(6) {
            0 => rng.range(200, 700),
            1 => rng.range(8000, 8400),
            2 => rng.range(60, 140),
            _ => rng.range(1, 40),
        };
        let (before, behind) = (size(&mut self.rng), self.rng.range(1, 40));
        let how = *self.rng.pick(&["", "", "", "__attribute__((packed)) ", "__attribute__((aligned(32))) "]);
        self.shared.push_str(&format!(
            "struct {how}sig{id} {{ char first[{before}]; fn f; char last[{behind}]; }};\n"
        ));
    }

    /// A function of a signature, in any unit; its name.
    fn signed(&mut self, id: usize, parameters: &str, body: &str) -> String {
        let there = self.any_unit();
        self.shared.push_str(&format!("fn signed{id}({parameters});\n"));
        let noinline = self.noinline();
        self.drafts[there].items.push_str(&format!("{noinline}fn signed{id}({parameters}) {{ {body} }}\n"));
        format!("signed{id}")
    }
}
