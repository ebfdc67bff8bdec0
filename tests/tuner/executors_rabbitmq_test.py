#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What every executor must do (executors_body.py), by Celery's workers and a real RabbitMQ."""
import unittest

import executors_celery_test
from servers import RabbitServers


class RabbitMqTest(executors_celery_test.CeleryTest):
    servers = RabbitServers
    test_kills_change_nothing = None  # executors_celery_test.py has it


if __name__ == "__main__":
    unittest.main()
