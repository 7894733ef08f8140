// Package crd holds the CustomResourceDefinition of GcuResources for a program that judges one without a cluster.
package crd

import _ "embed"

// GcuResources is the CustomResourceDefinition, in YAML.
//
//go:embed topsops.enflame.com_gcuresources.yaml
var GcuResources []byte
