declare <2 x ptr> @llvm.experimental.vp.strided.load.v2p0.p0.i64(ptr, i64, <2 x i1>, i32)
define <2 x ptr> @t(ptr %a) {
%v = call <2 x ptr> @llvm.experimental.vp.strided.load.v2p0.p0.i64(ptr %a, i64 8, <2 x i1> splat (i1 true), i32 2)
ret <2 x ptr> %v }
define void @u(ptr %a) { musttail call void %a(ptr %a)
 ret void }
