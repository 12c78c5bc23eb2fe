; What tests/it/called_values.rs holds LLVM's called value propagation and ours beside each other on: an indirect call in each function
; whose name begins with by_, of a value that comes there in another way.
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"

define internal i64 @up(i64 %a, i64 %b) noinline {
  %c = icmp ult i64 %a, %b
  %r = zext i1 %c to i64
  ret i64 %r
}
define internal i64 @down(i64 %a, i64 %b) noinline {
  %c = icmp ugt i64 %a, %b
  %r = zext i1 %c to i64
  ret i64 %r
}
define internal i64 @never(i64 %a, i64 %b) noinline {
  %r = mul i64 %a, %b
  ret i64 %r
}

; A comparison as an argument, which a recursive function passes on to itself.
define internal i64 @by_argument(i64 %n, ptr %compare) noinline {
  %r = call i64 %compare(i64 %n, i64 5)
  %done = icmp eq i64 %n, 0
  br i1 %done, label %end, label %more
more:
  %m = sub i64 %n, 1
  %s = call i64 @by_argument(i64 %m, ptr %compare)
  %t = add i64 %r, %s
  ret i64 %t
end:
  ret i64 %r
}

; Two functions that call each other, each with the other's argument.
define internal i64 @by_turns(i64 %n, ptr %f, ptr %g) noinline {
  %r = call i64 %f(i64 %n, i64 3)
  %s = call i64 @by_turns_back(i64 %n, ptr %f, ptr %g)
  %t = add i64 %r, %s
  ret i64 %t
}
define internal i64 @by_turns_back(i64 %n, ptr %f, ptr %g) noinline {
  %r = call i64 %g(i64 %n, i64 4)
  %done = icmp eq i64 %n, 0
  br i1 %done, label %end, label %more
more:
  %m = sub i64 %n, 1
  %s = call i64 @by_turns(i64 %m, ptr %g, ptr %f)
  %t = add i64 %r, %s
  ret i64 %t
end:
  ret i64 %r
}

define internal i64 @by_select(i1 %which) noinline {
  %f = select i1 %which, ptr @up, ptr @down
  %r = call i64 %f(i64 1, i64 2)
  ret i64 %r
}

define internal i64 @by_phi(i1 %which) noinline {
  br i1 %which, label %a, label %b
a:
  br label %join
b:
  br label %join
join:
  %f = phi ptr [ @down, %a ], [ @up, %b ]
  %r = call i64 %f(i64 1, i64 2)
  ret i64 %r
}

; A variable that a function stores to, and one that is only initialized.
@handler = internal global ptr @up
@fixed = internal global ptr @down
define internal void @install(i1 %which) noinline {
  br i1 %which, label %a, label %b
a:
  store ptr @down, ptr @handler
  ret void
b:
  ret void
}
define internal i64 @by_global() noinline {
  %f = load ptr, ptr @handler
  %r = call i64 %f(i64 2, i64 1)
  ret i64 %r
}
define internal i64 @by_initializer() noinline {
  %f = load ptr, ptr @fixed
  %r = call i64 %f(i64 2, i64 1)
  ret i64 %r
}

; A function that returns functions, through another one.
define internal ptr @pick(i1 %which) noinline {
  %f = select i1 %which, ptr @down, ptr @up
  ret ptr %f
}
define internal ptr @pick_again(i1 %which) noinline {
  %f = call ptr @pick(i1 %which)
  ret ptr %f
}
define internal i64 @by_result(i1 %which) noinline {
  %f = call ptr @pick_again(i1 %which)
  %r = call i64 %f(i64 7, i64 7)
  ret i64 %r
}

; Null is no function.
define internal i64 @by_null(i1 %which) noinline {
  %f = select i1 %which, ptr @up, ptr null
  br i1 %which, label %a, label %b
a:
  %r = call i64 %f(i64 1, i64 1)
  ret i64 %r
b:
  ret i64 0
}

; A table, which LLVM's pass does not look into.
@table = internal constant [2 x ptr] [ptr @up, ptr @down]
define internal i64 @by_table(i64 %i) noinline {
  %p = getelementptr [2 x ptr], ptr @table, i64 0, i64 %i
  %f = load ptr, ptr %p
  %r = call i64 %f(i64 1, i64 1)
  ret i64 %r
}

; @never is mentioned, compared and not called.
define i32 @main(i32 %argc, ptr %argv) {
  %which = icmp eq i32 %argc, 1
  call void @install(i1 %which)
  %f = load ptr, ptr @handler
  %odd = icmp eq ptr %f, @never
  %o = zext i1 %odd to i64
  %1 = call i64 @by_argument(i64 9, ptr @up)
  %2 = call i64 @by_argument(i64 9, ptr @down)
  %3 = call i64 @by_turns(i64 4, ptr @up, ptr @down)
  %4 = call i64 @by_select(i1 %which)
  %5 = call i64 @by_phi(i1 %which)
  %6 = call i64 @by_global()
  %7 = call i64 @by_initializer()
  %8 = call i64 @by_result(i1 %which)
  %9 = call i64 @by_null(i1 %which)
  %10 = call i64 @by_table(i64 1)
  %a1 = add i64 %o, %1
  %a2 = add i64 %a1, %2
  %a3 = add i64 %a2, %3
  %a4 = add i64 %a3, %4
  %a5 = add i64 %a4, %5
  %a6 = add i64 %a5, %6
  %a7 = add i64 %a6, %7
  %a8 = add i64 %a7, %8
  %a9 = add i64 %a8, %9
  %a10 = add i64 %a9, %10
  %status = trunc i64 %a10 to i32
  ret i32 %status
}
