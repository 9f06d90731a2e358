// Metal.h: the declarations of Apple's Metal that src/backends/metal uses, to check its syntax elsewhere
#pragma once

#import <Foundation/Foundation.h>

enum MTLResourceOptions : NSUInteger { MTLResourceStorageModeShared = 0 };
enum MTLStorageMode : NSUInteger { MTLStorageModeShared = 0 };
enum MTLResourceUsage : NSUInteger { MTLResourceUsageRead = 1, MTLResourceUsageWrite = 2 };
inline MTLResourceUsage operator|(MTLResourceUsage a, MTLResourceUsage b) { return MTLResourceUsage(NSUInteger(a) | NSUInteger(b)); }
enum MTLGPUFamily : NSInteger { MTLGPUFamilyApple7 = 1007, MTLGPUFamilyMetal3 = 5001 };
enum MTLBarrierScope : NSUInteger { MTLBarrierScopeBuffers = 1 };
enum MTLCommandBufferStatus : NSUInteger { MTLCommandBufferStatusCompleted = 4, MTLCommandBufferStatusError = 5 };
enum MTLLanguageVersion : NSUInteger { MTLLanguageVersion3_2 = (3 << 16) + 2 };
enum MTLPipelineOption : NSUInteger { MTLPipelineOptionNone = 0, MTLPipelineOptionFailOnBinaryArchiveMiss = 1 << 2 };
enum MTLMathMode : NSInteger { MTLMathModeSafe = 0 };
struct MTLSize {
  NSUInteger width, height, depth;
};
inline MTLSize MTLSizeMake(NSUInteger width, NSUInteger height, NSUInteger depth) { return {width, height, depth}; }

@protocol MTLAllocation <NSObject>
@end
@protocol MTLDevice;
@protocol MTLHeap <MTLAllocation>
@end
@protocol MTLResource <MTLAllocation>
@property(readonly) id<MTLDevice> device;
@property(readonly) id<MTLHeap> heap;
@property(readonly) MTLStorageMode storageMode;
@end
@protocol MTLBuffer <MTLResource>
@property(readonly) uint64_t gpuAddress;
@property(readonly) NSUInteger length;
- (void *)contents;
@end
@protocol MTLFence <NSObject>
@end
@protocol MTLFunction <NSObject>
@end
@protocol MTLLibrary <NSObject>
- (id<MTLFunction>)newFunctionWithName:(NSString *)name;
@end
@protocol MTLComputePipelineState <NSObject>
@end
@protocol MTLBinaryArchive;
@interface MTLComputePipelineDescriptor : NSObject
@property id<MTLFunction> computeFunction;
@property(copy) NSArray<id<MTLBinaryArchive>> *binaryArchives;
@end
@interface MTLBinaryArchiveDescriptor : NSObject
@property(copy) NSURL *url;
@end
@protocol MTLBinaryArchive <NSObject>
- (bool)addComputePipelineFunctionsWithDescriptor:(MTLComputePipelineDescriptor *)descriptor error:(NSError **)error;
- (bool)serializeToURL:(NSURL *)url error:(NSError **)error;
@end
@interface MTLComputePipelineReflection : NSObject
@end
@interface MTLCompileOptions : NSObject
@property MTLLanguageVersion languageVersion;
@property MTLMathMode mathMode;
@end
@interface MTLResidencySetDescriptor : NSObject
@end
@protocol MTLResidencySet <NSObject>
- (void)addAllocation:(id<MTLAllocation>)allocation;
- (void)removeAllocation:(id<MTLAllocation>)allocation;
- (void)commit;
- (void)requestResidency;
@end
@protocol MTLCommandEncoder <NSObject>
- (void)endEncoding;
@end
@protocol MTLComputeCommandEncoder <MTLCommandEncoder>
- (void)updateFence:(id<MTLFence>)fence;
- (void)waitForFence:(id<MTLFence>)fence;
- (void)useResource:(id<MTLResource>)resource usage:(MTLResourceUsage)usage;
- (void)memoryBarrierWithScope:(MTLBarrierScope)scope;
- (void)setComputePipelineState:(id<MTLComputePipelineState>)state;
- (void)setBytes:(const void *)bytes length:(NSUInteger)length atIndex:(NSUInteger)index;
- (void)dispatchThreadgroups:(MTLSize)blocks threadsPerThreadgroup:(MTLSize)threads;
@end
@protocol MTLBlitCommandEncoder <MTLCommandEncoder>
- (void)updateFence:(id<MTLFence>)fence;
- (void)waitForFence:(id<MTLFence>)fence;
- (void)copyFromBuffer:(id<MTLBuffer>)source
          sourceOffset:(NSUInteger)sourceOffset
              toBuffer:(id<MTLBuffer>)target
     destinationOffset:(NSUInteger)targetOffset
                  size:(NSUInteger)bytes;
- (void)fillBuffer:(id<MTLBuffer>)buffer range:(NSRange)range value:(uint8_t)value;
@end
@interface MTLCommandBufferDescriptor : NSObject
@property bool retainedReferences;
@end
@protocol MTLCommandBuffer <NSObject>
@property(readonly) MTLCommandBufferStatus status;
@property(readonly) NSError *error;
@property(readonly) double GPUEndTime;
- (id<MTLComputeCommandEncoder>)computeCommandEncoder;
- (id<MTLBlitCommandEncoder>)blitCommandEncoder;
- (void)commit;
- (void)waitUntilCompleted;
@end
@protocol MTLCommandQueue <NSObject>
- (id<MTLCommandBuffer>)commandBufferWithDescriptor:(MTLCommandBufferDescriptor *)descriptor;
- (void)addResidencySet:(id<MTLResidencySet>)set;
- (void)removeResidencySet:(id<MTLResidencySet>)set;
@end
@protocol MTLDevice <NSObject>
@property(readonly) NSString *name;
@property(readonly) uint64_t recommendedMaxWorkingSetSize;
@property(readonly) NSUInteger maxBufferLength;
- (bool)supportsFamily:(MTLGPUFamily)family;
- (id<MTLCommandQueue>)newCommandQueue;
- (id<MTLFence>)newFence;
- (id<MTLBuffer>)newBufferWithLength:(NSUInteger)bytes options:(MTLResourceOptions)options;
- (id<MTLResidencySet>)newResidencySetWithDescriptor:(MTLResidencySetDescriptor *)descriptor error:(NSError **)error;
- (id<MTLLibrary>)newLibraryWithSource:(NSString *)source options:(MTLCompileOptions *)options error:(NSError **)error;
- (id<MTLBinaryArchive>)newBinaryArchiveWithDescriptor:(MTLBinaryArchiveDescriptor *)descriptor error:(NSError **)error;
- (id<MTLComputePipelineState>)newComputePipelineStateWithDescriptor:(MTLComputePipelineDescriptor *)descriptor
                                                             options:(MTLPipelineOption)options
                                                          reflection:(MTLComputePipelineReflection **)reflection
                                                               error:(NSError **)error;
@end
extern "C" NSArray<id<MTLDevice>> *MTLCopyAllDevices() __attribute__((ns_returns_retained));
