//! Carriers whose shape is drawn: structures of several layouts, parameters in any place, variable arguments; and how a chain begins,
//! goes on in another unit, and ends.

use super::{Chain, Weaver};

impl Weaver {
    /// A structure with the value in one of its fields, copied one way or another.
    pub(super) fn structure(&mut self, chain: &mut Chain) {
        let id = self.fresh();
        let unit = chain.unit;
        let fields = self.rng.range(1, 6);
        let at = self.rng.below(fields);
        let (mut members, mut fill) = (String::new(), String::new());
        for i in 0..fields {
            if i == at {
                members.push_str("fn f; ");
                fill.push_str(&format!("s{id}.f = {}; ", chain.value));
                continue;
            }
            let (member, value) = match self.rng.below(8) {
                0 => ("unsigned", "x".to_owned()),
                1 => ("char", "(char)y".to_owned()),
                2 => ("double", "1.5".to_owned()),
                3 => ("void *", "0".to_owned()),
                4 => ("short", "(short)x".to_owned()),
                _ => ("fn", self.function("decoy", unit)),
            };
            members.push_str(&format!("{member} m{i}; "));
            fill.push_str(&format!("s{id}.m{i} = {value}; "));
        }
        let packed = if self.rng.one_in(10) { "__attribute__((packed)) " } else { "" };
        self.shared.push_str(&format!("struct {packed}rec{id} {{ {members}}};\n"));
        let place = if self.rng.one_in(3) { "static " } else { "" };
        chain
            .body
            .push_str(&format!("  {place}struct rec{id} s{id}; memset(&s{id}, 0, sizeof s{id}); {fill}\n"));
        self.carry(chain, id, "copy", "");
    }

    /// Through a function that gives back one of its parameters, in any place among others.
    pub(super) fn parameters(&mut self, chain: &mut Chain) {
        let id = self.fresh();
        let there = if self.rng.one_in(2) { chain.unit } else { self.any_unit() };
        let count = self.rng.range(1, 10);
        let at = self.rng.below(count);
        let (mut parameters, mut actuals) = (Vec::new(), Vec::new());
        for i in 0..count {
            let (kind, actual) = match self.rng.below(6) {
                _ if i == at => ("fn", chain.value.clone()),
                0 => ("double", "2.5".to_owned()),
                1 => ("fn", self.function("decoy", chain.unit)),
                2 => ("void *", "&x".to_owned()),
                3 => ("unsigned char", "(unsigned char)x".to_owned()),
                _ => ("unsigned", "y".to_owned()),
            };
            parameters.push(format!("{kind} p{i}"));
            actuals.push(actual);
        }
        let parameters = parameters.join(", ");
        let noinline = self.noinline();
        let local = there == chain.unit && self.rng.one_in(2);
        let storage = if local { "static " } else { "" };
        let give = match self.rng.below(4) {
            0 => format!("fn l = p{at}; touch(&sum); return l;"),
            1 => format!("fn *q = &p{at}; touch(&sum); return *q;"),
            _ => format!("return p{at};"),
        };
        if !local {
            self.shared.push_str(&format!("fn give{id}({parameters});\n"));
        }
        self.drafts[there]
            .items
            .push_str(&format!("{storage}{noinline}fn give{id}({parameters}) {{ {give} }}\n"));
        let actuals = actuals.join(", ");
        chain.body.push_str(&if self.rng.one_in(3) {
            format!("  fn (*volatile by{id})({parameters}) = give{id}; fn v{id} = by{id}({actuals});\n")
        } else {
            format!("  fn v{id} = give{id}({actuals});\n")
        });
        chain.value = format!("v{id}");
    }

    pub(super) fn variadic(&mut self, chain: &mut Chain) {
        let id = self.fresh();
        let there = self.any_unit();
        let count = self.rng.range(1, 9);
        let at = self.rng.below(count);
        let (mut reads, mut actuals) = (String::new(), String::new());
        let pair = format!("struct two{id}");
        for i in 0..count {
            let (kind, actual) = match self.rng.below(5) {
                _ if i == at => ("fn", chain.value.clone()),
                0 => ("double", "2.5".to_owned()),
                1 => ("fn", self.function("decoy", chain.unit)),
                2 => (&*pair, format!("w{id}")),
                _ => ("unsigned", "y".to_owned()),
            };
            actuals.push_str(&format!(", {actual}"));
            reads.push_str(&match i == at {
                true => "r = va_arg(l, fn); ".to_owned(),
                false => format!("(void)va_arg(l, {kind}); "),
            });
        }
        let outer = match self.rng.below(3) {
            0 => format!("va_list c; va_copy(c, l); r = inner{id}(&c); va_end(c);"),
            _ => format!("r = inner{id}(&l);"),
        };
        self.shared.push_str(&format!(
            "struct two{id} {{ double d; fn f; }};\nstruct list{id} {{ va_list l; }};\nfn spread{id}(int n, ...);\n"
        ));
        let body = if self.rng.one_in(2) {
            format!(
                "fn spread{id}(int n, ...) {{ fn r; va_list l; va_start(l, n); {reads}va_end(l); return r; }}\n"
            )
        } else {
            let reads = reads.replace("(l,", "(*l,");
            format!(
                "static {}fn inner{id}(va_list *l) {{ fn r; {reads}return r; }}\n\
                 fn spread{id}(int n, ...) {{ fn r; va_list l; va_start(l, n); {outer} va_end(l); return r; }}\n",
                self.noinline()
            )
        };
        self.drafts[there].items.push_str(&body);
        let decoy = self.function("decoy", chain.unit);
        chain.body.push_str(&format!(
            "  struct two{id} w{id}; w{id}.d = 1.0; w{id}.f = {decoy}; (void)w{id}; fn v{id} = spread{id}({count}{actuals});\n"
        ));
        chain.value = format!("v{id}");
    }

    /// The chain goes on in a function of another unit.
    pub(super) fn hand_over(&mut self, chain: &mut Chain) {
        let id = self.fresh();
        let unit = self.any_unit();
        self.shared.push_str(&format!("unsigned part{id}(fn v, unsigned a, unsigned b);\n"));
        let call = format!("part{id}({}, x, y)", chain.value);
        chain.body.push_str(&if self.rng.one_in(2) {
            format!("  return {call};\n")
        } else {
            format!("  x += {call}; touch(&x); return x ^ y;\n")
        });
        self.close(chain);
        chain.unit = unit;
        chain.head = format!("unsigned part{id}(fn v, unsigned a, unsigned b)");
        chain.value = "v".into();
    }

    pub(super) fn end(&mut self, chain: &mut Chain) {
        let v = chain.value.clone();
        for _ in 0..self.rng.below(3) {
            let decoy = self.function("decoy", chain.unit);
            chain.body.push_str(&format!("  x += {v} == {decoy};\n"));
        }
        let text = match self.rng.below(5) {
            0 => format!("  return {v}(x, y);\n"),
            1 => format!("  for (unsigned i = 0; i < 3u; i++) x += {v}(x, i);\n  return x;\n"),
            2 => format!("  if ({v}) x ^= {v}(y, x);\n  return x;\n"),
            _ => format!("  return x * 3u + {v}(x, y);\n"),
        };
        chain.body.push_str(&text);
        self.close(chain);
    }

    fn close(&mut self, chain: &mut Chain) {
        let body = std::mem::take(&mut chain.body);
        let text = format!("{} {{\n  unsigned x = a, y = b; (void)y;\n{body}}}\n", chain.head);
        self.drafts[chain.unit].items.push_str(&text);
    }
}
