package main

import (
	"context"
	"encoding/json"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
)

type cause struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// validateDefinition returns the causes with which an API server refuses a CustomResourceDefinition.
func validateDefinition(ctx context.Context, source json.RawMessage) (answer, error) {
	var external apiextensionsv1.CustomResourceDefinition
	if err := json.Unmarshal(source, &external); err != nil {
		return answer{}, err
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(&external)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&external.Spec)
	var internal apiextensions.CustomResourceDefinition
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(&external, &internal, nil); err != nil {
		return answer{}, err
	}
	internal.Status.StoredVersions = []string{}
	for _, version := range internal.Spec.Versions {
		if version.Storage {
			internal.Status.StoredVersions = append(internal.Status.StoredVersions, version.Name)
		}
	}
	var result answer
	for _, problem := range validation.ValidateCustomResourceDefinition(ctx, &internal) {
		result.Causes = append(result.Causes, cause{Field: problem.Field, Message: problem.ErrorBody()})
	}
	return result, nil
}
