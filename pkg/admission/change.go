package admission

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/types"
)

// maxObject bounds a gr that is looked at: in memory it may take 100 times that. One has 10 KiB.
const maxObject = 512 << 10

// change is what is read of an AdmissionRequest: of the object before only which one it is.
type change struct {
	UID      types.UID `json:"uid"`
	Name     string    `json:"name"`
	DryRun   bool      `json:"dryRun"`
	UserInfo struct {
		Username string `json:"username"`
	} `json:"userInfo"`
	Object    json.RawMessage `json:"object"`
	OldObject struct {
		Metadata struct {
			UID types.UID `json:"uid"`
		} `json:"metadata"`
	} `json:"oldObject"`
}
