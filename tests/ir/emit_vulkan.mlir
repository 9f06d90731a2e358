// RUN: qd-opt %s --pipeline --emit=optimized --target=vulkan:subgroup=8,threads=256,shared=32768,f64,atomic64 | FileCheck %s
// RUN: qd-opt %s --pipeline --emit=spirv --target=vulkan:subgroup=8,threads=256,shared=32768,f64,atomic64 | FileCheck %s --check-prefix=BINARY
// RUN: qd-opt %s --pipeline --emit=optimized --target=vulkan:subgroup=8,threads=256,shared=32768 --verify-diagnostics

// The device's words say how many threads are in a subgroup, and what is missing. Three shuffles combine eight threads.
// CHECK: @qd_subgroups = internal addrspace(3) global [1 x [16 x double]]
// CHECK-LABEL: define void @qd_task_0(ptr
// CHECK-NOT: addrspacecast
// CHECK: atomicrmw xchg ptr {{.*}}, i64 {{.*}} syncscope("device")
// CHECK-NOT: addrspacecast
// CHECK: call i32 @grid.shuffle(i32
// CHECK-NOT: addrspacecast
// CHECK: fence syncscope("device") acq_rel
// CHECK: "block-size"="128"
// BINARY: QDEN
// BINARY: qd_task_0
// BINARY: main
qd.kernel @sum [] attributes {argument_bytes = 24 : i32} {
  // expected-error@+1 {{this device has no f64}}
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f64, [1024], [8], 8>
  // expected-error@+1 {{this device has no f64}}
  %s = qd.tensor_argument field "s" at 8 position 1 : !qd.tensor<f64, [], [], 8>
  %most = qd.tensor_argument field "most" at 16 position 2 : !qd.tensor<si64, [10000], [8], 8>
  %zero = qd.constant 0 : si32
  %end = qd.constant 1024 : si32
  // expected-error@+1 {{this device has no f64}}
  %target = qd.element %s[] : !qd.tensor<f64, [], [], 8> -> !qd.ref<f64>
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    // expected-error@+1 {{this device has no f64}}
    %place = qd.element %x[%i] : !qd.tensor<f64, [1024], [8], 8>, si32 -> !qd.ref<f64>
    // expected-error@+1 {{this device has no f64}}
    %value = qd.load %place : !qd.ref<f64>
    // expected-error@+1 {{this device has no f64}}
    %old = qd.atomic add %target, %value : !qd.ref<f64>
    %wide = qd.cast %i : si32 -> si64
    %own = qd.element %most[%zero] : !qd.tensor<si64, [10000], [8], 8>, si32 -> !qd.ref<si64>
    // expected-error@+1 {{this device has no atomic operations on 64 bits}}
    %before = qd.atomic exchange %own, %wide : !qd.ref<si64>
    qd.yield
  }
}
