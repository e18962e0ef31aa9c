// The host needs no rendered shapes: ptx/wgmma.cuh supports every one.
#pragma once

#include "ptx/wgmma.cuh"
