source_filename = "old.c"
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"
$grouped = comdat any
$kept = comdat nodeduplicate
@g = global i32 3, align 4
@s = internal global i32 0, section "mine", align 8
@c = private unnamed_addr constant [3 x i8] c"ab\00"
@common = common hidden global i64 0, align 8
@t = thread_local(localdynamic) global i32 4
@ext = external global i32
@weak = extern_weak global i32
@table = internal constant [2 x i32 (i32)*] [i32 (i32)* @f, i32 (i32)* @grouped]
@kept = linkonce_odr protected global i32 2, comdat
@llvm.used = appending global [1 x i8*] [i8* bitcast (i32* @s to i8*)], section "llvm.metadata"
@al = weak alias i32 (i32), i32 (i32)* @f
@if = ifunc i32 (i32), i32 (i32)* ()* @resolver
define i32 @f(i32 %x) {
  %a = load i32, i32* @g
  store i32 %x, i32* @s
  %r = call i32 @grouped(i32 %a)
  %q = tail call i32 @away(i32 %r)
  ret i32 %q
}
define linkonce_odr i32 @grouped(i32 %x) comdat {
  %p = getelementptr [2 x i32 (i32)*], [2 x i32 (i32)*]* @table, i32 0, i32 %x
  %f = load i32 (i32)*, i32 (i32)** %p
  %r = call i32 %f(i32 %x)
  ret i32 %r
}
define internal i32 (i32)* @resolver() { ret i32 (i32)* @f }
define available_externally i32 @copy() { ret i32 4 }
define weak_odr hidden void @odr() { ret void }
declare i32 @away(i32)
declare extern_weak void @maybe()
define void @calls_maybe() {
  call void @maybe()
  ret void
}
