package component

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

//go:generate go run ./volcanocrds v1.7.0 volcanocrds/volcano-crds.json.gz

// volcanoCRDFile is a JSON list of the five CRDs of volcano v1.7.0, as their
// project publishes them (Apache License 2.0) without descriptions, compressed:
// 60 KB of schema in 5.
//
//go:embed volcanocrds/volcano-crds.json.gz
var volcanoCRDFile []byte

// volcanoCRDs returns the CRDs of volcano as the operator applies them: with LabelName, without
// the metadata of their project.
func volcanoCRDs() (objects, error) {
	plain, err := gzip.NewReader(bytes.NewReader(volcanoCRDFile))
	if err != nil {
		return nil, fmt.Errorf("unpacking the CRDs of volcano: %w", err)
	}
	var crds []apiextensionsv1.CustomResourceDefinition
	if err := json.NewDecoder(plain).Decode(&crds); err != nil {
		return nil, fmt.Errorf("decoding the CRDs of volcano: %w", err)
	}
	var list objects
	for i := range crds {
		crds[i].ObjectMeta = metav1.ObjectMeta{Name: crds[i].Name, Labels: map[string]string{LabelName: crds[i].Name}}
		list = append(list, &crds[i])
	}
	return list, nil
}
