//! Carriers of C++: virtual functions, pointers to members, exceptions, closures, containers, templates.

use super::{Carrier, Needs};

const fn plus(body: &'static str) -> Carrier {
    Carrier::new(body).needs(Needs::Plus)
}

pub(super) const CARRIERS: &[Carrier] = &[
    plus("  Holder@# *h@# = make@#(x, @v); fn @o = h@#->get(); sum += h@#->size(x); delete h@#;").here(
        "extern \"C++\" {\nnamespace {\nstruct Holder@# { fn f; explicit Holder@#(fn g) : f(g) {} virtual fn get() { return f; } virtual unsigned size(unsigned k) { return k + 1u; } virtual unsigned never(unsigned k) { return hash_text(k, \"never\"); } virtual ~Holder@#() { sum ^= 5u; } };\n\
         struct Deeper@# : Holder@# { using Holder@#::Holder@#; fn get() override { sum++; return f; } unsigned never(unsigned k) override { return hash_text(k, \"deeper\"); } ~Deeper@#() override { sum ^= 9u; } };\n\
         Holder@# *make@#(unsigned k, fn f) { return k & 1u ? new Holder@#(f) : new Deeper@#(f); }\n}\n}\n",
    ),
    plus("  Left@# *l@# = new Both@#(@v); Right@# *r@# = dynamic_cast<Right@# *>(l@#); fn @o = r@#->right(); sum += l@#->left(x); delete r@#;").here(
        "extern \"C++\" {\nstruct Left@# { virtual unsigned left(unsigned k) { return k; } virtual unsigned unused() { return 3u; } virtual ~Left@#() {} };\n\
         struct Right@# { fn f = 0; virtual fn right() = 0; virtual fn unused2() { return @d; } virtual ~Right@#() { sum += 2u; } };\n\
         struct Both@# : Left@#, Right@# { explicit Both@#(fn g) { f = g; } unsigned left(unsigned k) override { return k * 3u; } fn right() override { return f; } };\n}\n",
    ),
    plus("  Dia@# d@#(@v); Base@# *b@# = &d@#; fn @o = b@#->get(); sum += d@#.extra(x);").here(
        "extern \"C++\" {\nstruct Base@# { fn f; Base@#() : f(0) {} virtual fn get() { return f; } virtual unsigned extra(unsigned k) { return k; } virtual void never() { sum++; } virtual ~Base@#() {} };\n\
         struct One@# : virtual Base@# { unsigned extra(unsigned k) override { return k + 1u; } };\nstruct Two@# : virtual Base@# { int pad[3]; };\n\
         struct Dia@# : One@#, Two@# { explicit Dia@#(fn g) { f = g; sum += Base@#::extra(2u); } fn get() override { return f; } };\n}\n",
    ),
    plus("  Pm@# p@#; p@#.f = @v; fn (Pm@#::*m@#)() = x & 1u ? &Pm@#::plain : &Pm@#::virt; touch(&x); fn @o = (p@#.*m@#)();").here(
        "extern \"C++\" {\nnamespace {\nstruct Pm@# { fn f; fn plain() { return f; } virtual fn virt() { return f; } virtual fn unused() { return @d; } virtual ~Pm@#() {} };\n}\n}\n",
    ),
    plus("  Pm@# p@#; p@#.f = @v; fn @o = (p@#.*tab@#[x % 3u])(@d);").here(
        "extern \"C++\" {\nstruct Pm@# { fn f; fn a(fn) { return f; } fn b(fn g) { return g == 0 ? g : f; } };\nstatic fn (Pm@#::*const tab@#[])(fn) = {&Pm@#::a, &Pm@#::b, &Pm@#::a};\n}\n",
    ),
    plus("  std::function<fn()> g@# = [=]() -> fn { return @v; }; touch(&x); std::function<fn()> h@# = g@#; fn @o = h@#();"),
    plus("  std::function<unsigned(unsigned, unsigned)> g@# = @v; x += g@#(x, y); fn *t@# = g@#.target<fn>(); fn @o = t@# ? *t@# : @v;"),
    plus("  auto l@# = [](unsigned p, unsigned q) -> unsigned { return p * 3u + q; }; fn m@# = l@#; x += m@#(x, y); auto c@# = [&]() { return @v; }; fn @o = c@#();"),
    plus("  fn @o = 0; try { throw Err@#(@v, @d); } catch (const Err@# &e) { @o = e.f; x = hash_text(x, e.what()); }").here(
        "extern \"C++\" {\nstruct Err@# : std::exception { fn f, g; Err@#(fn a, fn b) : f(a), g(b) {} const char *what() const noexcept override { return \"err\"; } virtual unsigned never() const { return 4u; } };\n}\n",
    ),
    plus("  fn @o = 0; try { try { raise@#(x, @v); } catch (const std::exception &e) { x = hash_text(x, e.what()); throw; } } catch (Thrown@# &t) { @o = t.get(); }").here(
        "extern \"C++\" {\nstruct Thrown@# : std::runtime_error { fn f; explicit Thrown@#(fn g) : std::runtime_error(\"thrown\"), f(g) {} virtual fn get() { return f; } };\nstruct Sub@# : Thrown@# { using Thrown@#::Thrown@#; fn get() override { sum++; return f; } };\n\
         static @nvoid raise@#(unsigned k, fn f) { struct Guard { ~Guard() { sum += 7u; } } g; (void)g; if (k & 1u) throw Sub@#(f); throw Thrown@#(f); }\n}\n",
    ),
    plus("  fn @o = 0; try { sum += catcher@#(@v); } catch (fn f) { @o = f; }").here("extern \"C++\" {\nstatic @nunsigned catcher@#(fn f) { if (sum | 1u) throw f; return 3u; }\n}\n"),
    plus("  fn @o = @v; { Raii@# r@#(&@o, @v); @o = 0; touch(&x); }").here("extern \"C++\" {\nnamespace {\nstruct Raii@# { fn *to, f; Raii@#(fn *t, fn g) : to(t), f(g) {} ~Raii@#() { *to = f; } };\n}\n}\n"),
    plus("  std::vector<fn> l@#; l@#.push_back(@t); l@#.push_back(@v); l@#.push_back(@t); touch(&x); fn @o = l@#[1 + zero];"),
    plus("  static std::map<unsigned, fn> m@#; m@#[3] = @v; m@#[5] = @t; touch(&x); fn @o = m@#.find(3u + zero)->second;"),
    plus("  std::map<std::string, fn> m@# = {{\"one\", @t}, {\"two\", @v}}; fn @o = m@#[x & 1u ? \"two\" : \"two\"];"),
    plus("  std::pair<unsigned, fn> l@#[3] = {{7u, @t}, {x & 3u, @v}, {9u, @t}}; std::sort(l@#, l@# + 3, less@#); fn @o = l@#[0].second;").here("extern \"C++\" {\nstatic bool less@#(const std::pair<unsigned, fn> &l, const std::pair<unsigned, fn> &r) { return l.first < r.first; }\n}\n"),
    plus("  std::unique_ptr<fn, void (*)(fn *)> u@#(new fn(@v), drop@#); fn @o = *u@#;").here("extern \"C++\" {\nstatic void drop@#(fn *p) { sum += (*p)(1, 2); delete p; }\n}\n"),
    plus("  std::shared_ptr<Sh@#> s@# = std::make_shared<Sh@#>(@v); std::shared_ptr<Sh@#> t@# = s@#; fn @o = t@#->get();").here("extern \"C++\" {\nnamespace {\nstruct Sh@# { fn f; explicit Sh@#(fn g) : f(g) {} virtual fn get() { return f; } virtual fn other() { return @d; } virtual ~Sh@#() { sum += 3u; } };\n}\n}\n"),
    plus("  fn @o = Tmpl@#<2>::of(@v, x);").here("extern \"C++\" {\ntemplate <int N> struct Tmpl@# { static fn of(fn f, unsigned k) { static fn seen; seen = f; return k == 0xffffu ? seen : Tmpl@#<N - 1>::of(seen, k); } };\ntemplate <> struct Tmpl@#<0> { static fn of(fn f, unsigned) { return f; } };\n}\n"),
    plus("  fn @o = Apply@#<same@#>::go(@v);").here("extern \"C++\" {\nstatic fn same@#(fn f) { return f; }\ntemplate <fn (*F)(fn)> struct Apply@# { static fn go(fn f) { return F(f); } };\n}\n"),
    plus("  static Stat@# s@#(@v); s@#.f = @v; fn @o = s@#.get();").here("extern \"C++\" {\nnamespace {\nstruct Stat@# { fn f; explicit Stat@#(fn g) : f(g) {} virtual fn get() { return f; } virtual ~Stat@#() { sum += f(3, 4); printf(\"%08x\\n\", sum); } };\n}\n}\n"),
    plus("  at_start@#.f = @v; touch(&x); fn @o = at_start@#.virt();").here("extern \"C++\" {\nstruct Glob@# { fn f; Glob@#() : f(@d) { sum += 3u; } virtual fn virt() { return f; } virtual fn unused() { return @d; } virtual ~Glob@#() { sum ^= 77u; } };\nstatic Glob@# at_start@#;\n}\n"),
    plus("  Crtp@# c@#; c@#.f = @v; fn @o = c@#.call();").here("extern \"C++\" {\ntemplate <class T> struct CrtpBase@# { fn call() { return static_cast<T *>(this)->impl(); } virtual ~CrtpBase@#() {} };\nstruct Crtp@# : CrtpBase@#<Crtp@#> { fn f; fn impl() { return f; } };\n}\n"),
    plus("  Cov@# *c@# = new Cov2@#(@v); Cov@# *d@# = c@#->clone(); fn @o = d@#->get(); delete c@#; delete d@#;").here(
        "extern \"C++\" {\nstruct Pad@# { long pad = 4; virtual unsigned padded() { return 4u; } virtual ~Pad@#() {} };\nstruct Cov@# { virtual Cov@# *clone() = 0; virtual fn get() = 0; virtual ~Cov@#() {} };\nstruct Cov2@# : Pad@#, Cov@# { fn f; explicit Cov2@#(fn g) : f(g) {} Cov2@# *clone() override { return new Cov2@#(f); } fn get() override { return f; } };\n}\n",
    ),
    plus("  alignas(Pl@#) static unsigned char b@#[sizeof(Pl@#)]; Pl@# *p@# = new (b@#) Pl@#(@v); fn @o = p@#->get(); p@#->~Pl@#();").here("extern \"C++\" {\nnamespace {\nstruct Pl@# { fn f; explicit Pl@#(fn g) : f(g) {} virtual fn get() { return f; } virtual ~Pl@#() { f = 0; } };\n}\n}\n"),
    plus("  Ctor@# c@#(@v); fn @o = c@#.f;").here("extern \"C++\" {\nstruct CtorBase@# { fn f; explicit CtorBase@#(fn g) : f(0) { set(g); } virtual void set(fn g) { f = g; } virtual ~CtorBase@#() {} };\nstruct Ctor@# : CtorBase@# { explicit Ctor@#(fn g) : CtorBase@#(g) {} void set(fn g) override { f = g; sum++; } };\n}\n"),
    plus("  fn @o = 0; { std::terminate_handler old = std::set_terminate(term@#); std::terminate_handler mine = std::set_terminate(old); if (mine == term@#) @o = @v; mine(); }").here("extern \"C++\" {\nstatic void term@#() { sum += 3u; }\n}\n"),
    plus("  fn @o = 0; { new_fn@# = @v; std::new_handler old = std::set_new_handler(more@#); (*std::get_new_handler())(); std::set_new_handler(old); @o = got@#; }").here("extern \"C++\" {\nstatic fn new_fn@#, got@#;\nstatic void more@#() { got@# = new_fn@#; }\n}\n"),
    plus("  Iface@# *i@# = iface@#(@v); fn @o = i@#->get(); i@#->drop();").there("#ifdef __cplusplus\nextern \"C++\" {\nstruct Iface@# { virtual fn get() = 0; virtual unsigned idle() { return 1u; } virtual void drop() = 0; protected: ~Iface@#() {} };\n}\nIface@# *iface@#(fn f);\n#endif\n", "")
        .here("extern \"C++\" {\nnamespace { struct Impl@# final : Iface@# { fn f; explicit Impl@#(fn g) : f(g) {} fn get() override { return f; } unsigned idle() override { return 2u; } void drop() override { delete this; } }; }\n}\nIface@# *iface@#(fn f) { return new Impl@#(f); }\n"),
    plus("  Big@# *a@# = new Big@#[3]; a@#[1].f = @v; touch(&x); fn @o = a@#[1].get(); delete[] a@#;").here("extern \"C++\" {\nnamespace {\nstruct Big@# { fn f; Big@#() : f(@d) {} virtual fn get() { return f; } virtual ~Big@#() { sum += 2u; } };\n}\n}\n"),
    plus("  fn @o = *std::find_if(fns@#, fns@# + 3, [&](fn f) { return f == @v || f == fns@#[2]; }); if (@o != @v) { x += @o(1, 2); @o = @v; }").here("extern \"C++\" {\nstatic fn fns@#[] = {@t, @t, @t};\n}\n"),
];
