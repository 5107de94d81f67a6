; Tensor memory access, transaction barriers, clusters and register hand-over as LLVM's NVPTX backend
; prints them from its intrinsics; an alias, a jump table and kernel attributes besides.
target triple = "nvptx64-nvidia-cuda"

@tile = internal addrspace(3) global [1024 x float] undef, align 128
@ready = internal addrspace(3) global i64 undef, align 8
@table = addrspace(1) global [4 x ptr] [ptr @twice, ptr @thrice, ptr null, ptr @twice], align 8
@text = private addrspace(4) constant [6 x i8] c"a\22b\5C\0A\00"
@same = alias i32 (i32), ptr @twice

define i32 @twice(i32 %v) noinline {
  %r = shl i32 %v, 1
  ret i32 %r
}

define i32 @thrice(i32 %v) noinline {
  %r = mul i32 %v, 3
  ret i32 %r
}

define ptx_kernel void @tensor_copies(ptr byval([128 x i8]) align 64 %map, ptr addrspace(1) %out, i32 %x, i32 %n) #0 {
entry:
  %map1 = addrspacecast ptr %map to ptr addrspace(1)
  %descriptor = addrspacecast ptr addrspace(1) %map1 to ptr
  call void @llvm.nvvm.mbarrier.init.shared(ptr addrspace(3) @ready, i32 1)
  %tile7 = addrspacecast ptr addrspace(3) @tile to ptr addrspace(7)
  br label %loop
loop:
  %i = phi i32 [0, %entry], [%next, %loop]
  call void @llvm.nvvm.cp.async.bulk.tensor.g2s.tile.2d(ptr addrspace(7) %tile7, ptr addrspace(3) @ready, ptr %descriptor, i32 %x, i32 %i, i16 0, i64 0, i1 0, i1 0, i32 0)
  call void @llvm.nvvm.cp.async.bulk.tensor.s2g.tile.2d(ptr addrspace(3) @tile, ptr %descriptor, i32 %i, i32 %x, i64 0, i1 0)
  call void @llvm.nvvm.cp.async.bulk.tensor.prefetch.tile.3d(ptr %descriptor, i32 %x, i32 %i, i32 0, i64 0, i1 0)
  call void @llvm.nvvm.cp.async.bulk.tensor.reduce.add.tile.1d(ptr addrspace(3) @tile, ptr %descriptor, i32 %x, i64 0, i1 0)
  call void @llvm.nvvm.cp.async.bulk.commit.group()
  call void @llvm.nvvm.cp.async.bulk.wait.group.read(i32 1)
  call void @llvm.nvvm.fence.proxy.tensormap_generic.release.gpu()
  %next = add i32 %i, 1
  %more = icmp slt i32 %next, %n
  br i1 %more, label %loop, label %done
done:
  call void @llvm.nvvm.cp.async.bulk.wait.group(i32 0)
  call void @llvm.nvvm.griddepcontrol.wait()
  call void @llvm.nvvm.barrier.cluster.arrive.relaxed()
  call void @llvm.nvvm.barrier.cluster.wait()
  %value = load float, ptr addrspace(3) @tile
  store float %value, ptr addrspace(1) %out
  call void @llvm.nvvm.griddepcontrol.launch.dependents()
  ret void
}

define ptx_kernel void @dispatch(ptr addrspace(1) %out, i32 %which) #1 {
entry:
  switch i32 %which, label %other [ i32 0, label %a  i32 1, label %b  i32 2, label %c  i32 3, label %d  i32 4, label %a ]
a:
  br label %join
b:
  br label %join
c:
  %s = call i32 @same(i32 %which)
  br label %join
d:
  %slot = getelementptr [4 x ptr], ptr addrspace(1) @table, i32 0, i32 %which
  %function = load ptr, ptr addrspace(1) %slot
  %t = call i32 %function(i32 7)
  br label %join
other:
  call void @llvm.nvvm.setmaxnreg.dec.sync.aligned.u32(i32 40)
  %character = load i8, ptr addrspace(4) @text
  %wide = zext i8 %character to i32
  br label %join
join:
  %v = phi i32 [11, %a], [22, %b], [%s, %c], [%t, %d], [%wide, %other]
  store i32 %v, ptr addrspace(1) %out
  ret void
}

declare void @llvm.nvvm.mbarrier.init.shared(ptr addrspace(3), i32)
declare void @llvm.nvvm.cp.async.bulk.tensor.g2s.tile.2d(ptr addrspace(7), ptr addrspace(3), ptr, i32, i32, i16, i64, i1, i1, i32)
declare void @llvm.nvvm.cp.async.bulk.tensor.s2g.tile.2d(ptr addrspace(3), ptr, i32, i32, i64, i1)
declare void @llvm.nvvm.cp.async.bulk.tensor.prefetch.tile.3d(ptr, i32, i32, i32, i64, i1)
declare void @llvm.nvvm.cp.async.bulk.tensor.reduce.add.tile.1d(ptr addrspace(3), ptr, i32, i64, i1)
declare void @llvm.nvvm.cp.async.bulk.commit.group()
declare void @llvm.nvvm.cp.async.bulk.wait.group(i32)
declare void @llvm.nvvm.cp.async.bulk.wait.group.read(i32)
declare void @llvm.nvvm.fence.proxy.tensormap_generic.release.gpu()
declare void @llvm.nvvm.barrier.cluster.arrive.relaxed()
declare void @llvm.nvvm.barrier.cluster.wait()
declare void @llvm.nvvm.griddepcontrol.wait()
declare void @llvm.nvvm.griddepcontrol.launch.dependents()
declare void @llvm.nvvm.setmaxnreg.dec.sync.aligned.u32(i32)

attributes #0 = { "nvvm.reqntid"="64,2,1" "nvvm.cluster_dim"="2" }
attributes #1 = { "nvvm.maxntid"="256" "nvvm.minctasm"="2" "nvvm.maxnreg"="64" }
