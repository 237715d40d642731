package main

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"sampan.test/operator/api"
)

func setUpWebhooks(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr, &api.Shop{}).WithDefaulter(defaulter{}).WithValidator(validator{}).Complete()
}

type defaulter struct{}

func (defaulter) Default(_ context.Context, shop *api.Shop) error {
	if shop.Spec.Image == "" {
		shop.Spec.Image = "example.com/shop:1"
	}
	return nil
}

type validator struct{}

func (validator) ValidateCreate(_ context.Context, shop *api.Shop) (admission.Warnings, error) {
	return validate(shop)
}

func (validator) ValidateUpdate(_ context.Context, old, shop *api.Shop) (admission.Warnings, error) {
	if old.Spec.ConfigMapName != "" && shop.Spec.ConfigMapName == "" {
		return nil, fmt.Errorf("the config map cannot be removed")
	}
	return validate(shop)
}

func (validator) ValidateDelete(_ context.Context, shop *api.Shop) (admission.Warnings, error) {
	if shop.Annotations["protected"] == "yes" {
		return nil, fmt.Errorf("the shop is protected")
	}
	return nil, nil
}

func validate(shop *api.Shop) (admission.Warnings, error) {
	if shop.Spec.Replicas > 10 {
		path := field.NewPath("spec", "replicas")
		problems := field.ErrorList{field.Invalid(path, shop.Spec.Replicas, "at most 10 replicas")}
		return nil, apierrors.NewInvalid(api.V1.WithKind("Shop").GroupKind(), shop.Name, problems)
	}
	if shop.Spec.Replicas == 0 {
		return admission.Warnings{"a shop without replicas is closed"}, nil
	}
	return nil, nil
}
