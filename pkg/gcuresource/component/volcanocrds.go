package component

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

//go:generate go run ./volcanocrds v1.7.0 volcanocrds/volcano-crds.json.gz

// volcanoCRDFile is a JSON list of the five CRDs of volcano v1.7.0, as their
// project publishes them (Apache License 2.0) without descriptions, compressed:
// 60 KB of schema in 5.
//
//go:embed volcanocrds/volcano-crds.json.gz
var volcanoCRDFile []byte

var readVolcanoCRDs = sync.OnceValues(func() ([]apiextensionsv1.CustomResourceDefinition, error) {
	plain, err := gzip.NewReader(bytes.NewReader(volcanoCRDFile))
	if err != nil {
		return nil, fmt.Errorf("unpacking the CRDs of volcano: %w", err)
	}
	var list []apiextensionsv1.CustomResourceDefinition
	if err := json.NewDecoder(plain).Decode(&list); err != nil {
		return nil, fmt.Errorf("decoding the CRDs of volcano: %w", err)
	}
	return list, nil
})

// volcanoCRDs returns the CRDs of volcano as the operator applies them.
func volcanoCRDs() ([]object, error) {
	crds, err := readVolcanoCRDs()
	if err != nil {
		return nil, err
	}
	list := make([]object, len(crds))
	for i := range crds {
		crd := crds[i].DeepCopy()
		crd.ObjectMeta = metaOf("", crd.Name, crd.Name)
		list[i] = crd
	}
	return list, nil
}
