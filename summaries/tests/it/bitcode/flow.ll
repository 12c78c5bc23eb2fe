; What summaries/tests/it/bitcode/flow.rs holds the constraints of: one function for each rule.
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"
%pair = type { i32, ptr, [4 x ptr] }
%packed = type <{ i8, ptr }>
@g = global %pair { i32 1, ptr @f, [4 x ptr] [ptr null, ptr @h, ptr getelementptr (i8, ptr @g, i64 8), ptr null] }
@p = internal constant %packed <{ i8 1, ptr @f }>
@rel = internal constant [1 x i32] [i32 trunc (i64 sub (i64 ptrtoint (ptr @f to i64), i64 ptrtoint (ptr @rel to i64)) to i32)]
@labels = internal constant [1 x ptr] [ptr blockaddress(@go, %x)]
declare void @ext(ptr)
define ptr @f(i64 %a, double %b, ptr %c, <4 x i32> %d) { 
  %q = getelementptr %pair, ptr %c, i64 0, i32 2, i64 3
  %v = load ptr, ptr %q
  ret ptr %v 
}
define linkonce_odr void @h(ptr %a) { 
  call void @ext(ptr %a)
  ret void
}
define available_externally void @av(ptr %a) { 
  call void @h(ptr %a)
  ret void
}
define void @user(ptr %x) {
  call void @h(ptr %x)
  call void @av(ptr %x)
  ret void
}
define void @wide(i128 %a, ptr %c) { 
  call void %c(i128 %a)
  ret void
}
define void @sr(ptr sret(%pair) %r, ptr byval(%pair) %s) {
  call void @sr(ptr sret(%pair) %r, ptr byval(%pair) %s)
  ret void
}
define void @va(ptr %a, ...) {
  %l = alloca [24 x i8]
  call void @llvm.va_start(ptr %l)
  ret void
}
declare void @llvm.va_start(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare ptr @llvm.coro.begin(token, ptr)
define void @as(ptr %a, ptr %b, i64 %n) {
  call void asm sideeffect "call *$0", "r"(ptr %a)
  call void @llvm.memcpy.p0.p0.i64(ptr %a, ptr %b, i64 16, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr %a, ptr %b, i64 %n, i1 false)
  ret void
}
define void @go(i64 %i) {
  %s = getelementptr [1 x ptr], ptr @labels, i64 0, i64 %i
  %t = load ptr, ptr %s
  indirectbr ptr %t, [label %x]
x:
  ret void
}
define ghccc void @odd(ptr %a) {
  ret void
}
define void @fixed(ptr %a) {
  store ptr %a, ptr inttoptr (i64 4096 to ptr)
  %f = load ptr, ptr inttoptr (i64 4096 to ptr)
  call void %f()
  ret void
}
