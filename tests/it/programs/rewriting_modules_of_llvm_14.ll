source_filename = "old.c"
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"
@table = global i32 (i32)* @stubbed
@dead_table = global [1 x i32 (i32)*] [i32 (i32)* @dead_f]
@dead_alias = alias i32 (i32), i32 (i32)* @dead_f
define i32 @stubbed(i32 %x) readnone speculatable {
  ret i32 %x
}
define i32 @dead_f(i32 %x) {
  %r = call i32 @dead_away(i32 %x)
  ret i32 %r
}
declare i32 @dead_away(i32)
define i32 @main(i32 %c, i8** %v) {
  %f = load volatile i32 (i32)*, i32 (i32)** @table
  %many = icmp sgt i32 %c, 1
  br i1 %many, label %calls, label %ends
calls:
  %r = call i32 %f(i32 %c)
  ret i32 %r
ends:
  ret i32 0
}
