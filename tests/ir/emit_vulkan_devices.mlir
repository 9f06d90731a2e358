// RUN: qd-opt %s --pipeline --strict-math --emit=optimized --target=vulkan:subgroup=32,threads=256,shared=32768,push=256,f64,fma,saves_registers | FileCheck %s --check-prefixes=CHECK,WIDE
// RUN: qd-opt %s --pipeline --strict-math --emit=optimized --target=vulkan:subgroup=32,threads=256,shared=32768,push=256,f64,fma,quotients | FileCheck %s --check-prefixes=CHECK,NARROW
// RUN: qd-opt %s --pipeline --strict-math --emit=optimized --target=vulkan:subgroup=32,threads=256,shared=32768,push=256,fma | FileCheck %s --check-prefix=SOFT
// RUN: qd-opt %s --pipeline --strict-math --emit=spirv --target=vulkan:subgroup=32,threads=256,shared=32768,push=256,f64,fma,saves_registers | FileCheck %s --check-prefix=BINARY

// Parameters have an address space of their own. Quotients and roots that are not exact on the device are those of f64; a division by a
// power of two is a product. The driver that saves registers gets shared memory to reserve where a grid is small.
// CHECK-LABEL: define void @qd_task_0(ptr addrspace(6)
// Lanes beyond the end of the loop load nothing.
// CHECK: masked:
// CHECK-NOT: load float
// CHECK: lane:
// CHECK-NEXT: load float
// CHECK-DAG: fmul {{.*}}2.500000e-01
// WIDE-DAG: fdiv <4 x double>
// WIDE-DAG: sqrt.v4f64
// WIDE-DAG: [[QUOTIENT:%.*]] = fdiv <4 x double>
// WIDE-DAG: [[SHORT:%.*]] = fptrunc <4 x double> [[QUOTIENT]]
// WIDE-DAG: floor.v4f32(<4 x float> [[SHORT]])
// NARROW-DAG: fdiv <4 x float>
// NARROW-DAG: sqrt.v4f32
// WIDE: attributes #{{.*}} "prefers-registers"
// NARROW-NOT: prefers-registers
// SOFT-NOT: {{fdiv|fpext|x double}}
// SOFT: call fastcc i64 @qd_double_divide_x1
// BINARY: QDEN
qd.kernel @quotients [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [64], [4], 4>
  %zero = qd.constant 0 : si32
  %end = qd.constant 64 : si32
  %four = qd.constant 4.0 : f32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<f32, [64], [4], 4>, si32 -> !qd.ref<f32>
    %value = qd.load %place : !qd.ref<f32>
    %quarter = qd.binary div %value, %four : f32, f32 -> f32
    %inverse = qd.binary div %four, %value : f32, f32 -> f32
    %sum = qd.binary add %quarter, %inverse : f32, f32 -> f32
    %root = qd.unary sqrt %value : f32 -> f32
    %floor = qd.binary floor_div %root, %value : f32, f32 -> f32
    %both = qd.binary add %sum, %root : f32, f32 -> f32
    %all = qd.binary add %both, %floor : f32, f32 -> f32
    qd.store %all, %place : !qd.ref<f32>
    qd.yield
  }
}
