// RUN: qd-opt %s --pipeline --emit=llvm --target=cuda --split-input-file | FileCheck %s
// RUN: qd-opt %s --pipeline --emit=asm --target=cuda --split-input-file | FileCheck %s --check-prefix=PTX

// Each thread takes four iterations at a time, one block apart, so that several loads are in flight; the remainder runs under a mask. Memory
// that no task writes is read through the read-only cache.
// CHECK-LABEL: define ptx_kernel void @qd_task_0(ptr {{.*}}byval([11 x i64]) align 8 "nvvm.grid_constant"
// CHECK: strides:
// CHECK-COUNT-4: load float, {{.*}} !invariant.load
// CHECK: fmul {{.*}} <4 x float>
// CHECK-COUNT-4: store float
// CHECK: masked:
// PTX-LABEL: .visible .entry qd_task_0(
// PTX: .maxntid 128
// PTX: ld.global.nc.b32 %r{{[0-9]+}}, [%rd[[FROM:[0-9]+]]+{{-?[0-9]+}}]
// PTX: st.global.b32
qd.kernel @scale [] attributes {argument_bytes = 24 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [65536], [4], 4>
  %y = qd.tensor_argument field "y" at 8 position 1 : !qd.tensor<f32, [65536], [4], 4>
  %a = qd.argument 16 : f32
  %zero = qd.constant 0 : si32
  %end = qd.constant 65536 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %from = qd.element %x[%i] : !qd.tensor<f32, [65536], [4], 4>, si32 -> !qd.ref<f32>
    %to = qd.element %y[%i] : !qd.tensor<f32, [65536], [4], 4>, si32 -> !qd.ref<f32>
    %value = qd.load %from : !qd.ref<f32>
    %scaled = qd.binary mul %value, %a : f32, f32 -> f32
    qd.store %scaled, %to : !qd.ref<f32>
    qd.yield
  }
}

// -----

// A sum is reduced in registers, subgroups and blocks; the last block adds the results of the others.
// CHECK-LABEL: define ptx_kernel void @qd_task_0
// CHECK: fadd {{.*}} <4 x float>
// CHECK: llvm.nvvm.shfl.sync.down.i32
// CHECK: llvm.nvvm.barrier.cta.sync.aligned.all
// CHECK: fence syncscope("device") acq_rel
// CHECK: atomicrmw add {{.*}} syncscope("device") monotonic
// CHECK: last:
// CHECK: fence syncscope("device") acq_rel
// PTX-LABEL: .visible .entry qd_task_0(
// PTX: shfl.sync.down.b32
// PTX: fence.acq_rel.gpu
// PTX: atom.global.add.u32
// PTX: fence.acq_rel.gpu
qd.kernel @sum [] attributes {argument_bytes = 16 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [1024], [4], 4>
  %s = qd.tensor_argument field "s" at 8 position 1 : !qd.tensor<f32, [], [], 4>
  %zero = qd.constant 0 : si32
  %end = qd.constant 1024 : si32
  %target = qd.element %s[] : !qd.tensor<f32, [], [], 4> -> !qd.ref<f32>
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<f32, [1024], [4], 4>, si32 -> !qd.ref<f32>
    %value = qd.load %place : !qd.ref<f32>
    %old = qd.atomic add %target, %value : !qd.ref<f32>
    qd.yield
  }
}

// -----

// A table that fits into block memory is filled there, in each block; one whose size is known only at launch has code for both cases.
// Nobody needs the old value, which drivers would fetch.
// CHECK-LABEL: define ptx_kernel void @qd_task_0
// CHECK: copies:
// CHECK: merge:
// PTX-LABEL: .visible .entry qd_task_0(
// PTX: atom.shared.add.u32
// PTX: red.relaxed.gpu.global.add.u32
qd.kernel @histogram [] attributes {argument_bytes = 24 : i32} {
  %keys = qd.tensor_argument field "keys" at 0 position 0 : !qd.tensor<si32, [100000], [4], 4>
  %bins = qd.tensor_argument "bins" at 8 position 1 : !qd.tensor<si32, [?], [4], 4>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %end = qd.constant 100000 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %keys[%i] : !qd.tensor<si32, [100000], [4], 4>, si32 -> !qd.ref<si32>
    %key = qd.load %place : !qd.ref<si32>
    %bin = qd.element %bins[%key] : !qd.tensor<si32, [?], [4], 4>, si32 -> !qd.ref<si32>
    %old = qd.atomic add %bin, %one : !qd.ref<si32>
    qd.yield
  }
}

// -----

// Serial statements run on one thread; a return among them sets a slot that later tasks test.
// CHECK-LABEL: define ptx_kernel void @qd_task_0
// PTX-LABEL: .visible .entry qd_task_0(
// PTX: .maxntid 1{{$}}
// CHECK: store i32 0, ptr
// CHECK: store i32 1, ptr
// CHECK-LABEL: define ptx_kernel void @qd_task_1
// CHECK: icmp ne i32
// CHECK: select i1 {{.*}}, i64 0, i64 6400
qd.kernel @leave [si32] attributes {argument_bytes = 16 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [6400], [4], 4>
  %n = qd.argument 8 : si32
  %zero = qd.constant 0 : si32
  %end = qd.constant 6400 : si32
  %negative = qd.binary lt %n, %zero : si32, si32 -> i1
  qd.if %negative {
    qd.return %n : si32
  }
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<si32, [6400], [4], 4>, si32 -> !qd.ref<si32>
    qd.store %i, %place : !qd.ref<si32>
    qd.yield
  }
}

// -----

// Tasks that one block can run become one entry, with barriers between them.
// CHECK-LABEL: define ptx_kernel void @qd_task_0
// CHECK: [[THREAD:%[0-9]+]] = call {{.*}}i32 @llvm.nvvm.read.ptx.sreg.tid.x()
// CHECK: [[FIRST:%[0-9]+]] = icmp eq i32 [[THREAD]], 0
// CHECK: br i1 [[FIRST]], label %[[SERIAL:.*]], label %[[NEXT:.*]]
// CHECK: [[SERIAL]]:
// CHECK: store i32 1, ptr
// CHECK: [[NEXT]]:
// CHECK: call void @llvm.nvvm.barrier.cta.sync.aligned.all
// CHECK: select i1 {{.*}}, i64 0, i64 64
// CHECK-NOT: define ptx_kernel
// PTX-LABEL: .visible .entry qd_task_0(
// PTX: .maxntid 128
qd.kernel @together [si32] attributes {argument_bytes = 16 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [64], [4], 4>
  %n = qd.argument 8 : si32
  %zero = qd.constant 0 : si32
  %end = qd.constant 64 : si32
  %negative = qd.binary lt %n, %zero : si32, si32 -> i1
  qd.if %negative {
    qd.return %n : si32
  }
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
    qd.store %i, %place : !qd.ref<si32>
    qd.yield
  }
}

// -----

// A long serial loop in a thread is unrolled.
// CHECK-LABEL: define ptx_kernel void @qd_task_0
// CHECK: br label %for{{.*}}, !llvm.loop [[ROUNDS:![0-9]+]]
// CHECK: [[ROUNDS]] = distinct !{[[ROUNDS]], [[COUNT:![0-9]+]]}
// CHECK: [[COUNT]] = !{!"llvm.loop.unroll.count", i32 16}
// PTX-LABEL: .visible .entry qd_task_0(
// PTX-COUNT-17: fma.rn.f32
qd.kernel @dot [] attributes {argument_bytes = 24 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [64], [4], 4>
  %y = qd.tensor_argument field "y" at 8 position 1 : !qd.tensor<f32, [64], [4], 4>
  %n = qd.argument 16 : si32
  %zero = qd.constant 0 : si32
  %end = qd.constant 64 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %sum = qd.local : !qd.ref<f32>
    %none = qd.constant 0.0 : f32
    qd.store %none, %sum : !qd.ref<f32>
    qd.for (%zero) to (%n) : (si32) to (si32) {
    ^inner(%j: si32):
      %place = qd.element %x[%j] : !qd.tensor<f32, [64], [4], 4>, si32 -> !qd.ref<f32>
      %value = qd.load %place : !qd.ref<f32>
      %square = qd.binary mul %value, %value : f32, f32 -> f32
      %old = qd.load %sum : !qd.ref<f32>
      %new = qd.binary add %old, %square : f32, f32 -> f32
      qd.store %new, %sum : !qd.ref<f32>
      qd.yield
    }
    %result = qd.load %sum : !qd.ref<f32>
    %to = qd.element %y[%i] : !qd.tensor<f32, [64], [4], 4>, si32 -> !qd.ref<f32>
    qd.store %result, %to : !qd.ref<f32>
    qd.yield
  }
}

// -----

// A loop with long functions is not: they are inlined.
// CHECK-LABEL: define ptx_kernel void @qd_task_0
// CHECK: br label %for
// CHECK-NOT: llvm.loop.unroll.count
qd.kernel @waves [] attributes {argument_bytes = 24 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [64], [4], 4>
  %y = qd.tensor_argument field "y" at 8 position 1 : !qd.tensor<f32, [64], [4], 4>
  %n = qd.argument 16 : si32
  %zero = qd.constant 0 : si32
  %end = qd.constant 64 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %sum = qd.local : !qd.ref<f32>
    %none = qd.constant 0.0 : f32
    qd.store %none, %sum : !qd.ref<f32>
    qd.for (%zero) to (%n) : (si32) to (si32) {
    ^inner(%j: si32):
      %place = qd.element %x[%j] : !qd.tensor<f32, [64], [4], 4>, si32 -> !qd.ref<f32>
      %value = qd.load %place : !qd.ref<f32>
      %sine = qd.unary sin %value : f32 -> f32
      %cosine = qd.unary cos %value : f32 -> f32
      %square = qd.binary mul %sine, %cosine : f32, f32 -> f32
      %old = qd.load %sum : !qd.ref<f32>
      %new = qd.binary add %old, %square : f32, f32 -> f32
      qd.store %new, %sum : !qd.ref<f32>
      qd.yield
    }
    %result = qd.load %sum : !qd.ref<f32>
    %to = qd.element %y[%i] : !qd.tensor<f32, [64], [4], 4>, si32 -> !qd.ref<f32>
    qd.store %result, %to : !qd.ref<f32>
    qd.yield
  }
}

// -----

// A function without results still returns a byte: PTX has no empty results.
// CHECK-LABEL: define internal { i1 } @qd_func_count_x1_u
// PTX: .func (.param {{.*}} func_retval0[1]) qd_func_count_x1_u
qd.func @count(%n: si32) {
  %one = qd.constant 1 : si32
  %more = qd.binary ge %n, %one : si32, si32 -> i1
  qd.if %more {
    %less = qd.binary sub %n, %one : si32, si32 -> si32
    qd.call @count(%less) : (si32) -> ()
    qd.yield
  }
  qd.return
}
qd.kernel @counting [] attributes {argument_bytes = 8 : i32} {
  %zero = qd.constant 0 : si32
  %end = qd.constant 64 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    qd.call @count(%i) : (si32) -> ()
    qd.yield
  }
}
