//! Statements of random programs that unwind: starts of unwindings, frames on the stack, and handlers.
//!
//! In a text `@G` is a function that may be called, `@Q` one that lets no exception out, `@N` a number that occurs once, `@K` a literal, and
//! `@C` handlers of everything but of forced unwinding. `r` is the result so far, `a` and `b` are the parameters.

/// A property of a program or unit that a statement needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Premise {
    Nothing,
    /// It can only be in units of C++.
    Cxx,
    /// The unit is of C++ with exceptions, and the program throws.
    Throw,
    /// As `Throw`, and the unit includes large headers.
    Library,
    /// It is about threads that exit or are cancelled.
    Forced,
    /// The program asks for its own frames.
    Trace,
    /// The unit throws exceptions, and the program asks for its own frames.
    Telling,
    /// The program calls the unwinder without a language's runtime.
    Raw,
    Signal,
    /// The program reads its own unwind tables.
    Reader,
}

/// How a statement treats an exception.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// It comes out of the statement if it comes out of the callee.
    Passes,
    Catches,
    Throws,
}

#[derive(Debug)]
pub(super) struct Statement {
    pub(super) needs: Premise,
    pub(super) effect: Effect,
    /// It stands before the function, at file scope.
    pub(super) item: &'static str,
    pub(super) text: &'static str,
}

const fn passes(needs: Premise, item: &'static str, text: &'static str) -> Statement {
    Statement { needs, effect: Effect::Passes, item, text }
}

const fn catches(needs: Premise, item: &'static str, text: &'static str) -> Statement {
    Statement { needs, effect: Effect::Catches, item, text }
}

const fn throws(needs: Premise, text: &'static str) -> Statement {
    Statement { needs, effect: Effect::Throws, item: "", text }
}

pub(super) const PRELUDE: &str = r#"#include <dirent.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <search.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>
#define UNUSED __attribute__((unused))
#define NOINLINE __attribute__((noinline))
#ifdef __cplusplus
extern "C" {
#endif
typedef unsigned (*fn)(unsigned, unsigned);
struct arg { fn f; unsigned a, b, r; sem_t *ready; };
extern int fuel;
extern unsigned sum;
extern __thread int in_thread;
extern __thread sem_t *ready;
unsigned simple(unsigned a, unsigned b);
unsigned call_by_assembly(unsigned a, unsigned b, fn f);
unsigned jump_by_assembly(unsigned a, unsigned b, fn f);
unsigned return_by_assembly(unsigned a, unsigned b, fn f);
void spin(void);
UNUSED static void *start(void *p) { struct arg *x = (struct arg *)p; in_thread = 1; x->r = x->f(x->a, x->b); return p; }
UNUSED static int start_c11(void *p) { struct arg *x = (struct arg *)p; in_thread = 1; return (int)(x->f(x->a, x->b) & 63u); }
UNUSED static void *start_cancelled(void *p) {
  struct arg *x = (struct arg *)p; in_thread = 2; ready = x->ready; x->r = x->f(x->a, x->b); in_thread = 1; sem_post(ready); for (;;) pause();
}
UNUSED static void clean(unsigned *p) { sum = sum * 3u + *p; printf("clean %u\n", *p % 100u); }
UNUSED static void old_clean(void *p) { sum = sum * 5u + *(unsigned *)p; puts("old clean"); }
"#;

/// Definitions of the first unit for all units.
pub(super) const BASE: &str = r#"int fuel;
unsigned sum = 17;
__thread int in_thread;
__thread sem_t *ready;
NOINLINE unsigned simple(unsigned a, unsigned b) { return *(volatile unsigned *)&a * 3u + b; }
NOINLINE void spin(void) { volatile unsigned n = 0; pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0); sem_post(ready); for (;;) n++; }
__asm__(".pushsection .text\n"
  ".globl call_by_assembly\n.type call_by_assembly,@function\ncall_by_assembly:\n.cfi_startproc\nsub $8,%rsp\n.cfi_def_cfa_offset 16\ncall *%rdx\n"
  "add $8,%rsp\n.cfi_def_cfa_offset 8\nret\n.cfi_endproc\n.size call_by_assembly,.-call_by_assembly\n"
  ".globl jump_by_assembly\n.type jump_by_assembly,@function\njump_by_assembly:\n.cfi_startproc\njmp *%rdx\n.cfi_endproc\n.size jump_by_assembly,.-jump_by_assembly\n"
  ".globl return_by_assembly\n.type return_by_assembly,@function\nreturn_by_assembly:\n.cfi_startproc\npush %rdx\n.cfi_def_cfa_offset 16\nret\n"
  ".cfi_endproc\n.size return_by_assembly,.-return_by_assembly\n.popsection\n");
"#;

/// The first unit defines these for all of them.
pub(super) const CXX: &str = r#"
#include <cxxabi.h>
#include <exception>
#include <new>
#include <typeinfo>
struct Noisy { unsigned k; explicit Noisy(unsigned k) : k(k) {} ~Noisy() { sum = sum * 7u + k; printf("~%u\n", k % 100u); } };
struct Runner { virtual unsigned run(unsigned x) { return simple(x, 2u); } virtual ~Runner() { sum++; } };
struct Other : Runner { unsigned k = 5; unsigned run(unsigned x) override { return simple(x, k); } };
struct Base { unsigned n; explicit Base(unsigned n) : n(n) {} virtual unsigned code() const { return n; } virtual ~Base() {} };
struct Derived : Base { using Base::Base; unsigned code() const override { return n * 3u; } };
struct Second : Runner, Base { explicit Second(unsigned n) : Base(n) {} unsigned code() const override { return n + 11u; } };
struct Telling : Base { using Base::Base; Telling(const Telling &) = default; ~Telling() { void *f[48]; sum += (unsigned)backtrace(f, 48); } };
struct Failure : std::exception, Base { using Base::Base; const char *what() const noexcept override { return "failure"; } };
#ifdef __cpp_exceptions
struct Thrower { Thrower() { sum = sum * 5u + 1u; if (sum % 4u == 1u) throw Derived(sum); } ~Thrower() { sum++; } };
struct Careful { fn f; unsigned k; ~Careful() { try { sum += f(k, 1u); } catch (abi::__forced_unwind &) { throw; } catch (...) { sum += 3u; } } };
#endif
inline unsigned shared(fn f, unsigned x) { Noisy n(x); return f(x, 3u); }
template <class T> unsigned of_type(fn f, T x) { Noisy n((unsigned)x); return f((unsigned)x, (unsigned)sizeof(T)); }
"#;

/// All units of C++ begin with these types and templates.
pub(super) const LIBRARY: &str = "#include <algorithm>\n#include <functional>\n#include <future>\n#include <map>\n#include <mutex>\n#include <sstream>\n\
    #include <stdexcept>\n#include <streambuf>\n#include <string>\n#include <thread>\n#include <vector>\n";

pub(super) const CATCH_ALL: &str =
    "catch (abi::__forced_unwind &) { throw; } catch (...) { r += 5u; puts(\"any\"); }";

use Premise::{Cxx, Forced, Library, Nothing, Raw, Reader, Signal, Telling, Throw, Trace};

pub(super) const STATEMENTS: &[Statement] = &[
    // Calls.
    passes(Nothing, "", "r += @G(r + @K, b);"),
    passes(Nothing, "", "r += @G(r, a) ^ @G(b, @K);"),
    passes(Nothing, "", "if (__builtin_expect(r % 5u == 1u, 0)) r += @G(r, @K);"),
    passes(Nothing, "", "{ fn volatile p@N = @G; r ^= p@N(r, @K); }"),
    passes(Nothing, "static const fn table@N[] = {@G, @G, simple};\n", "r += table@N[r % 3u](r, b);"),
    passes(Nothing, "fn slot@N = simple;\n", "slot@N = @G; r += slot@N(r, b);"),
    passes(
        Nothing,
        "static NOINLINE unsigned part@N(fn f, unsigned x) { return f(x, 9u); }\n",
        "r += part@N(@G, r);",
    ),
    passes(
        Nothing,
        "",
        "{ unsigned char room@N[r % 50u + 1u]; memset(room@N, 1, sizeof room@N); r += @G(r, room@N[0]); }",
    ),
    passes(Nothing, "", "r += call_by_assembly(r, b, @G);"),
    passes(Nothing, "", "r += jump_by_assembly(r, b, @G);"),
    passes(Nothing, "", "r += return_by_assembly(r, b, @G);"),
    // Cleanups.
    passes(Nothing, "", "{ __attribute__((cleanup(clean))) unsigned v@N = r; r += @G(r, v@N); }"),
    passes(Nothing, "", "pthread_cleanup_push(old_clean, &sum); r += @G(r, 1u); pthread_cleanup_pop(1);"),
    // Callbacks of the C library.
    passes(
        Nothing,
        "static int order@N(const void *x, const void *y) { unsigned p = *(const unsigned *)x, q = *(const unsigned *)y; sum += @G(p, q) & 7u; return p < q ? -1 : 1; }\n",
        "{ unsigned v@N[3] = {r, b, 7u}; qsort(v@N, 3, sizeof v@N[0], order@N); r += v@N[0]; }",
    ),
    passes(
        Nothing,
        "static int find@N(const void *x, const void *y) { sum += @G(sum, 1u) & 7u; return (int)*(const unsigned *)x - (int)*(const unsigned *)y; }\n",
        "{ unsigned v@N[3] = {1u, 5u, 9u}, k@N = 5u; r += bsearch(&k@N, v@N, 3, sizeof v@N[0], find@N) != 0; }",
    ),
    passes(
        Nothing,
        "static void *tree@N;\nstatic int node@N(const void *x, const void *y) { return (int)*(const unsigned *)x - (int)*(const unsigned *)y; }\n\
         static void walk@N(const void *n, VISIT v, int level) { (void)n; if (v != preorder) sum += @G((unsigned)level, 2u); }\n",
        "{ static unsigned k@N[2] = {4u, 6u}; tsearch(&k@N[0], &tree@N, node@N); tsearch(&k@N[1], &tree@N, node@N); twalk(tree@N, walk@N); }",
    ),
    passes(
        Nothing,
        "static pthread_once_t once@N = PTHREAD_ONCE_INIT;\nstatic void init@N(void) { sum += @G(sum, @K) & 15u; }\n",
        "pthread_once(&once@N, init@N);",
    ),
    passes(
        Nothing,
        "static ssize_t put@N(void *c, const char *p, size_t n) { (void)c; (void)p; sum += @G(sum, 2u) & 3u; return (ssize_t)n; }\n",
        "{ cookie_io_functions_t io@N; memset(&io@N, 0, sizeof io@N); io@N.write = put@N; FILE *f@N = fopencookie(0, \"w\", io@N); fputs(\"x\", f@N); fflush(f@N); }",
    ),
    passes(
        Nothing,
        "static int entry@N(const struct dirent *d) { if (d->d_name[0] == '.') sum += @G(1u, 2u) & 3u; return 0; }\n",
        "{ struct dirent **l@N; r += (unsigned)scandir(\"/\", &l@N, entry@N, alphasort); }",
    ),
    catches(
        Nothing,
        "static void end@N(void) { fuel = 9; printf(\"end %u\\n\", @Q(3u, @K) % 100u); }\n",
        "{ static int done@N; if (!done@N++) atexit(end@N); }",
    ),
    catches(
        Nothing,
        "static void UNUSED __attribute__((constructor)) early@N(void) { fuel = 5; sum += @Q(1u, 2u); }\n",
        "r++;",
    ),
    // Other stacks.
    catches(
        Nothing,
        "static ucontext_t in@N, out@N;\nstatic unsigned got@N;\nstatic char stack@N[131072] __attribute__((aligned(16)));\nstatic void run@N(void) { got@N = @Q(got@N, 2u); }\n",
        "getcontext(&in@N); in@N.uc_stack.ss_sp = stack@N; in@N.uc_stack.ss_size = sizeof stack@N; in@N.uc_link = &out@N; makecontext(&in@N, run@N, 0); swapcontext(&out@N, &in@N); r += got@N;",
    ),
    catches(
        Nothing,
        "",
        "{ struct arg x@N = {@Q, r, b, 0, 0}; pthread_t t@N; void *v@N = 0; if (pthread_create(&t@N, 0, start, &x@N)) abort(); pthread_join(t@N, &v@N); r += x@N.r + (v@N == (void *)&x@N); }",
    ),
    catches(
        Nothing,
        "",
        "{ struct arg x@N = {@Q, r, b, 0, 0}; thrd_t t@N; int v@N = 0; if (thrd_create(&t@N, start_c11, &x@N) != thrd_success) abort(); thrd_join(t@N, &v@N); r += (unsigned)v@N; }",
    ),
    catches(
        Nothing,
        "static pthread_key_t key@N;\nstatic void gone@N(void *p) { in_thread = 0; sum += @Q(4u, (unsigned)(long)p) & 3u; }\n",
        "{ static int made@N; if (!made@N++) pthread_key_create(&key@N, gone@N); if (in_thread) pthread_setspecific(key@N, (void *)(long)(r % 9u + 1u)); }",
    ),
    catches(
        Nothing,
        "",
        "fflush(stdout); { pid_t p@N = fork(); if (!p@N) { in_thread = 0; r = @Q(r, 3u); printf(\"child %u\\n\", r % 100u); fflush(stdout); _exit((int)(r & 31u)); } int s@N = 0; waitpid(p@N, &s@N, 0); r += (unsigned)s@N; }",
    ),
    passes(
        Nothing,
        "static NOINLINE unsigned hop@N(jmp_buf *j, unsigned n) { if (n > 2u) longjmp(*j, 1); return hop@N(j, n + 1u) + @G(n, 1u); }\n",
        "{ jmp_buf j@N; unsigned volatile kept@N = r; if (!setjmp(j@N)) hop@N(&j@N, r % 3u); r = kept@N + 1u; }",
    ),
    // Ends of threads.
    catches(
        Forced,
        "",
        "{ sem_t s@N; sem_init(&s@N, 0, 0); struct arg x@N = {@Q, r, b, 0, &s@N}; pthread_t t@N; void *v@N = 0; if (pthread_create(&t@N, 0, start_cancelled, &x@N)) abort(); sem_wait(&s@N); pthread_cancel(t@N); pthread_join(t@N, &v@N); r += v@N == PTHREAD_CANCELED; }",
    ),
    passes(Forced, "", "if (in_thread == 1 && r % 4u < 2u) pthread_exit((void *)(long)(r % 100u));"),
    passes(Forced, "", "if (in_thread == 1 && r % 4u == 2u) thrd_exit(3);"),
    passes(
        Forced,
        "",
        "if (in_thread == 1 && r % 4u == 1u) { pthread_cancel(pthread_self()); pthread_testcancel(); }",
    ),
    passes(Forced, "", "if (in_thread == 2) { sem_post(ready); for (;;) pause(); }"),
    passes(
        Forced,
        "",
        "if (in_thread == 2) { struct timespec t@N = {100, 0}; sem_post(ready); nanosleep(&t@N, 0); }",
    ),
    passes(
        Forced,
        "",
        "if (in_thread == 2) { int p@N[2]; char c@N; if (pipe(p@N)) abort(); sem_post(ready); r += (unsigned)read(p@N[0], &c@N, 1); }",
    ),
    passes(
        Forced,
        "static void unlock@N(void *m) { pthread_mutex_unlock((pthread_mutex_t *)m); puts(\"unlock\"); }\n",
        "if (in_thread == 2) { static pthread_mutex_t m@N = PTHREAD_MUTEX_INITIALIZER; static pthread_cond_t c@N = PTHREAD_COND_INITIALIZER; pthread_mutex_lock(&m@N); sem_post(ready); pthread_cleanup_push(unlock@N, &m@N); pthread_cond_wait(&c@N, &m@N); pthread_cleanup_pop(1); }",
    ),
    passes(Forced, "", "if (in_thread == 2) spin();"),
    // Frames.
    passes(Trace, "", "{ void *frames@N[48]; r += (unsigned)backtrace(frames@N, 48); }"),
    passes(
        Trace,
        "static _Unwind_Reason_Code frame@N(struct _Unwind_Context *c, void *p) { (void)c; ++*(unsigned *)p; return _URC_NO_REASON; }\n",
        "{ unsigned n@N = 0; _Unwind_Backtrace(frame@N, &n@N); r += n@N; }",
    ),
    // The unwinder itself.
    Statement {
        needs: Raw,
        effect: Effect::Throws,
        item: "",
        text: "if (r % 4u == 1u) { static struct _Unwind_Exception e@N; memset(&e@N, 0, sizeof e@N); e@N.exception_class = 0x4142434400000000ull; r += (unsigned)_Unwind_RaiseException(&e@N); }",
    },
    passes(
        Raw,
        "struct target@N { jmp_buf at; char *frame; unsigned n; };\n\
         static _Unwind_Reason_Code stop@N(int v, _Unwind_Action a, _Unwind_Exception_Class l, struct _Unwind_Exception *e, struct _Unwind_Context *c, void *p) {\n  \
         struct target@N *t = (struct target@N *)p; (void)v; (void)l; (void)e; t->n++; if ((a & _UA_END_OF_STACK) || (char *)_Unwind_GetCFA(c) >= t->frame) longjmp(t->at, 1); return _URC_NO_REASON; }\n\
         static NOINLINE void deep@N(struct target@N *t, unsigned n) {\n  \
         __attribute__((cleanup(clean))) unsigned v = n; static struct _Unwind_Exception e; if (n > 2u) { memset(&e, 0, sizeof e); _Unwind_ForcedUnwind(&e, stop@N, t); } deep@N(t, n + 1u); sum += v; }\n",
        "{ struct target@N t@N; t@N.n = 0; t@N.frame = (char *)__builtin_frame_address(0); if (!setjmp(t@N.at)) deep@N(&t@N, r % 2u); r = sum + t@N.n; }",
    ),
    passes(
        Trace,
        "",
        "if (r % 7u == 3u) { void *frames@N[48]; printf(\"%d\\n\", backtrace(frames@N, 48)); fflush(stdout); exit(4); }",
    ),
    // Signals, and tables.
    passes(Signal, "", "raise(SIGUSR1);"),
    passes(
        Signal,
        "static sigjmp_buf fault@N;\nstatic void hear@N(int s) { void *f[32]; sum += (unsigned)(s + backtrace(f, 32)); siglongjmp(fault@N, 1); }\n\
         static NOINLINE unsigned bad@N(unsigned *volatile p) { return *p + 1u; }\n",
        "signal(SIGSEGV, hear@N); if (!sigsetjmp(fault@N, 1)) sum += bad@N(0); signal(SIGSEGV, SIG_DFL);",
    ),
    passes(
        Reader,
        "static int each@N(struct dl_phdr_info *i, size_t n, void *p) { (void)n; (void)p; return i->dlpi_phnum > 100; }\n",
        "r += (unsigned)dl_iterate_phdr(each@N, 0);",
    ),
    // C++ without exceptions.
    passes(Cxx, "", "{ Noisy n@N(r); r += @G(r, n@N.k); }"),
    passes(Cxx, "", "r += shared(@G, r) + of_type<unsigned short>(@G, (unsigned short)b);"),
    passes(
        Cxx,
        "struct Run@N : Runner { unsigned k; explicit Run@N(unsigned k) : k(k) {} unsigned run(unsigned x) override { return @G(x, k); } };\n",
        "{ Runner *s@N = r % 2u ? (Runner *)new Run@N(r) : new Other; r += s@N->run(r); delete s@N; }",
    ),
    passes(
        Cxx,
        "struct Way@N : Other { unsigned run(unsigned x) override { return @G(x, k); } };\n",
        "{ unsigned (Runner::*volatile m@N)(unsigned) = &Runner::run; Way@N o@N; r += (o@N.*m@N)(b); }",
    ),
    passes(
        Cxx,
        "",
        "{ fn own@N = [](unsigned x, unsigned y) -> unsigned { Noisy n(x); return @G(x, y); }; r += own@N(r, b); }",
    ),
    passes(Cxx, "", "{ static Noisy n@N(r); r += n@N.k; }"),
    passes(Cxx, "", "[&]() noexcept { r += @Q(r, 6u); }();"),
    // Exceptions.
    throws(Throw, "if (r % 3u == 1u) throw r;"),
    throws(Throw, "if (r % 3u == 2u) throw Derived(r);"),
    throws(Throw, "if (r % 3u == 0u) throw Failure(r);"),
    throws(Throw, "if (r % 3u == 1u) throw Second(r);"),
    throws(Throw, "if (r % 4u == 1u) throw \"text\";"),
    throws(Telling, "if (r % 3u != 1u) throw Telling(r);"),
    catches(Telling, "", "try { r += @G(r, b); } catch (const Telling &e) { r += e.code(); } @C"),
    passes(Telling, "", "if (r % 6u == 5u) std::terminate();"),
    throws(Throw, "if (r % 4u == 1u) { Noisy n@N(r); throw std::bad_alloc(); }"),
    throws(Throw, "if (r % 4u == 2u) { Runner o@N; Runner &v@N = o@N; r += dynamic_cast<Other &>(v@N).k; }"),
    throws(
        Throw,
        "if (r % 4u == 3u) { Runner *volatile z@N = 0; r += (unsigned)strlen(typeid(*z@N).name()); }",
    ),
    throws(Throw, "if (r % 5u == 0u) { volatile size_t n@N = (size_t)-1 / 2; delete[] new char[n@N]; }"),
    throws(Throw, "{ Thrower *t@N = new Thrower[3]; delete[] t@N; }"),
    throws(Throw, "{ static Thrower t@N; r += sum & 1u; }"),
    catches(Throw, "", "try { r += @G(r, b); } @C"),
    catches(Throw, "", "try { Noisy n@N(r); r += @G(r, b); } catch (unsigned e) { r ^= e; } @C"),
    catches(Throw, "", "try { r += @G(r, b) + @G(b, r); } catch (const Base &e) { r += e.code(); } @C"),
    catches(Throw, "", "try { r += @G(r, b); } catch (std::exception &e) { puts(e.what()); } @C"),
    catches(
        Throw,
        "",
        "try { try { r += @G(r, 2u); } catch (abi::__forced_unwind &) { throw; } catch (...) { puts(\"again\"); throw; } } catch (const Derived &e) { r += e.code(); } @C",
    ),
    passes(Throw, "", "try { r += @G(r, b); } catch (unsigned e) { r ^= e; }"),
    passes(Throw, "", "try { r += @G(r, b); } catch (Base &e) { throw e.code(); }"),
    passes(
        Throw,
        "",
        "try { r += @G(r, b); } catch (const char *e) { r += (unsigned)strlen(e); throw Derived(r); }",
    ),
    catches(Throw, "", "{ Careful c@N = {@G, r}; r += 2u; }"),
    passes(Throw, "", "{ Careful c@N = {@G, r}; r += @G(r, 2u); }"),
    catches(
        Throw,
        "",
        "{ std::exception_ptr p@N; try { r += @G(r, 4u); } catch (abi::__forced_unwind &) { throw; } catch (...) { p@N = std::current_exception(); } if (p@N) try { std::rethrow_exception(p@N); } catch (const Base &e) { r += e.code(); } @C }",
    ),
    catches(
        Throw,
        "",
        "try { try { r += @G(r, 5u); } catch (unsigned) { std::throw_with_nested(Derived(r)); } } catch (Base &e) { try { std::rethrow_if_nested(e); } catch (unsigned n) { r += n; } @C } @C",
    ),
    catches(Throw, "", "[&]() noexcept { try { r += @G(r, 6u); } @C }();"),
    passes(
        Throw,
        "struct Part@N { unsigned v; Part@N(unsigned x) try : v(@G(x, 1u)) { } catch (unsigned e) { sum += e; } };\n",
        "{ Part@N p@N(r); r += p@N.v; }",
    ),
    // The C++ library.
    catches(Library, "", "std::thread([&] { try { r += @G(r, 7u); } @C }).join();"),
    catches(Library, "", "try { r += std::async(std::launch::async, [&] { return @G(r, 8u); }).get(); } @C"),
    passes(Library, "static std::once_flag flag@N;\n", "std::call_once(flag@N, [&] { r += @G(r, 1u); });"),
    passes(
        Library,
        "",
        "{ unsigned v@N[4] = {r, b, 2u, a}; std::sort(v@N, v@N + 4, [&](unsigned x, unsigned y) { sum += @G(x, y) & 1u; return x < y; }); r += v@N[0]; }",
    ),
    catches(
        Library,
        "struct Buf@N : std::streambuf { int overflow(int c) override { sum += @G(sum, 1u); return c; } };\n",
        "{ Buf@N b@N; std::ostream o@N(&b@N); o@N << r << 'x'; r += o@N.bad(); }",
    ),
    passes(
        Library,
        "struct Loud@N : std::streambuf { int overflow(int c) override { sum += @G(sum, 1u); return c; } };\n",
        "{ Loud@N b@N; std::ostream o@N(&b@N); o@N.exceptions(std::ios::badbit); o@N << r << 'x'; }",
    ),
    passes(
        Library,
        "static void event@N(std::ios_base::event e, std::ios_base &, int i) { if (e == std::ios_base::copyfmt_event) sum += @G((unsigned)i, 1u); }\n",
        "{ std::ostringstream o@N; o@N.register_callback(event@N, 3); std::ostringstream p@N; o@N.copyfmt(p@N); p@N.copyfmt(o@N); }",
    ),
    throws(Library, "{ std::vector<unsigned> v@N(2); r += v@N.at(r % 4u); }"),
    throws(Library, "{ std::string s@N = r % 3u ? \"12\" : \"x\"; r += (unsigned)std::stoul(s@N); }"),
    throws(
        Library,
        "{ std::function<unsigned(unsigned)> f@N; if (r % 3u) f@N = [&](unsigned x) { return simple(x, b); }; r += f@N(r); }",
    ),
    throws(
        Library,
        "{ std::promise<unsigned> p@N; auto f@N = p@N.get_future(); try { throw Derived(r); } catch (...) { p@N.set_exception(std::current_exception()); } if (r % 2u) r += f@N.get(); }",
    ),
    catches(Library, "", "{ std::map<unsigned, Noisy> m@N; try { m@N.emplace(r, Noisy(@G(r, 1u))); } @C }"),
];
